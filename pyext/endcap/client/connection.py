"""tritonclient behind one small interface; its exceptions become RequestError and ClientError."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.address import Address
from endcap.client.errors import ClientError, RequestError
from endcap.client.task import INPUT
from endcap.errors import Status

_GRPC_STATUS = {
    "StatusCode.INVALID_ARGUMENT": "invalid_argument",
    "StatusCode.UNAVAILABLE": "unavailable",
    "StatusCode.DEADLINE_EXCEEDED": "timeout",
    "StatusCode.CANCELLED": "cancelled",
    "StatusCode.NOT_FOUND": "unavailable",
    "StatusCode.UNIMPLEMENTED": "unsupported",
}
_HTTP_STATUS = {
    "400": "invalid_argument",
    "404": "unavailable",
    "429": "unavailable",
    "499": "cancelled",
    "501": "unsupported",
    "503": "unavailable",
}
# endcap's backends begin a message with the failure class; an ensemble puts its name before it.
_CLASS_IN_MESSAGE = re.compile(
    r"(?:in ensemble '[^']*', )?(" + "|".join(status.label for status in Status) + r"): "
)


class Connection:
    """One connection to a server. Over gRPC it is thread-safe; over HTTP each thread needs one."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._module = _import_tritonclient(address.protocol)
        options: dict[str, float] = {}
        self._not_http: type[Exception] = ValueError
        if address.protocol == "http":
            self._not_http = importlib.import_module("geventhttpclient._parser").HTTPParseError
            options = {"connection_timeout": timeout_s, "network_timeout": timeout_s}
        self._client: Any = self._module.InferenceServerClient(address.authority, **options)

    def close(self) -> None:
        """Closes the connection; calls after that fail."""
        self._client.close()

    def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now. Raises RequestError where none answers."""
        with self._translated():
            return bool(self._client.is_model_ready(model, **self._per_call()))

    def is_live(self) -> bool:
        """Whether a Triton server answers. Raises RequestError where nothing does."""
        with self._translated():
            return bool(self._client.is_server_live(**self._per_call()))

    def tensors(self, model: str) -> tuple[set[str], set[str]]:
        """Returns the names of a model's inputs and outputs. Raises RequestError."""
        with self._translated():
            if self.address.protocol == "grpc":
                answer = self._client.get_model_metadata(model, as_json=True, **self._per_call())
            else:
                answer = self._client.get_model_metadata(model)
        inputs, outputs = (
            {tensor["name"] for tensor in answer.get(kind, [])} for kind in ("inputs", "outputs")
        )
        return inputs, outputs

    def ready_models(self) -> list[str]:
        """Returns the names of all models that are ready. Raises RequestError."""
        with self._translated():
            if self.address.protocol == "grpc":
                answer = self._client.get_model_repository_index(as_json=True, **self._per_call())
                rows = answer.get("models", [])
            else:
                rows = self._client.get_model_repository_index()
        return sorted({row["name"] for row in rows if row.get("state") == "READY"})

    def parameter(self, model: str, name: str) -> str | None:
        """Returns a parameter of the model's configuration, None where it is not set."""
        with self._translated():
            if self.address.protocol == "grpc":
                answer = self._client.get_model_config(model, as_json=True, **self._per_call())
                config = answer["config"]
            else:
                config = self._client.get_model_config(model)
        value = config.get("parameters", {}).get(name, {}).get("string_value")
        return str(value) if value is not None else None

    def infer(
        self, model: str, encoded: bytes, outputs: Sequence[str]
    ) -> dict[str, NDArray[Any] | None]:
        """Sends one encoded image as `encoded` BYTES [1,1]; returns tensors by name.

        outputs: the tensors to ask for, no others are sent; None stands for one that the answer
        lacks. Raises RequestError with the server's message.
        """
        tensor = self._module.InferInput(INPUT, [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[encoded]], dtype=np.object_))
        wanted = [self._module.InferRequestedOutput(name) for name in outputs]
        with self._translated():
            result = self._client.infer(model, [tensor], outputs=wanted, **self._per_call())
            return {name: result.as_numpy(name) for name in outputs}

    def _per_call(self) -> dict[str, float]:
        return {"client_timeout": self.timeout_s} if self.address.protocol == "grpc" else {}

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        utils = importlib.import_module("tritonclient.utils")
        try:
            yield
        except utils.InferenceServerException as error:
            raise _request_error(str(error.message()), str(error.status())) from error
        except TimeoutError as error:
            raise RequestError("timeout", f"no answer within {self.timeout_s:g} s") from error
        except OSError as error:
            raise RequestError("unavailable", error.strerror or str(error)) from error
        except (ValueError, self._not_http) as error:
            # Something else than Triton's HTTP service: its gRPC or metrics port, say.
            raise RequestError(
                "unavailable",
                f"what answers is no Triton server's {self.address.protocol} service; the usual "
                "ports are 8000 for HTTP and 8001 for gRPC",
            ) from error


def _request_error(message: str, status: str) -> RequestError:
    known = _CLASS_IN_MESSAGE.match(message)
    if known:
        return RequestError(known.group(1), message[known.end() :])
    if status in ("StatusCode.DEADLINE_EXCEEDED", "499") and "imeout" in message:
        return RequestError("timeout", message)
    return RequestError(_GRPC_STATUS.get(status) or _HTTP_STATUS.get(status, "internal"), message)


def _import_tritonclient(protocol: str) -> ModuleType:
    try:
        return importlib.import_module(f"tritonclient.{protocol}")
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ClientError(
            f"the {protocol} client of Triton is not installed ({error}); "
            "run `pip install 'endcap[client]'`"
        ) from error
