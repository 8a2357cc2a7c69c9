"""Triton's HTTP service: requests, and responses read.

Source of the paths and bodies: the KServe v2 protocol and Triton's extensions of it
(model_repository, model_configuration, shared_memory).
"""

from __future__ import annotations

import gzip
import importlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from endcap.client.calls import (
    Call,
    Exchange,
    InputTensor,
    OutputTensor,
    Response,
    SharedOutput,
    SharedSlice,
    T,
    checked_datatype,
    checked_shape,
    elements,
    import_client,
)
from endcap.client.errors import RequestError, from_http, not_triton
from endcap.client.grpc import plain_fields
from endcap.client.options import Compression
from endcap.client.served_model import ModelMetadata, read_metadata

MOST_BYTES = 2**31 - 1  # of a response, also inflated; gRPC's limit
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_LEVEL = 6  # gRPC's; from there on it takes much longer for little


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request. path: with the slash before it, percent-encoded."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response. headers: their names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpProtocol:
    """What a client asks. Thread-safe; ClientError where tritonclient is missing."""

    def __init__(self, compression: Compression | None = None) -> None:
        self._compression = compression
        import_client("http")

    def infer(self, call: Call) -> Exchange[Response]:
        """Run a model once."""
        request = infer_request(call, self._compression)
        return Exchange(
            request, lambda response: read_infer_response(response, call, self._compression)
        )

    def live(self) -> Exchange[bool]:
        """Whether the server answers."""
        return Exchange(HttpRequest("GET", "/v2/health/live"), _is_ok)

    def ready(self, model: str) -> Exchange[bool]:
        """Whether it serves a model."""
        return Exchange(HttpRequest("GET", f"{_path(model)}/ready"), _is_ok)

    def ready_models(self) -> Exchange[list[str]]:
        """The names of all that it serves."""

        def read(said: Any) -> list[str]:
            return sorted({str(each["name"]) for each in said.get("model_stats", [])})

        # Of the statistics: `endcap serve` closes the repository's index.
        return _get("/v2/models/stats", read)

    def metadata(self, model: str) -> Exchange[ModelMetadata]:
        """The tensors of a model."""

        def read(said: Any) -> ModelMetadata:
            return read_metadata(
                model, _tensors(said.get("inputs", [])), _tensors(said.get("outputs", []))
            )

        return _get(_path(model), read)

    def config(self, model: str) -> Exchange[dict[str, Any]]:
        """The configuration of a model."""
        return _get(f"{_path(model)}/config", lambda said: config_from_json(model, said))

    def statistics(self) -> Exchange[list[dict[str, Any]]]:
        """What the server has counted of each of its models."""
        return _get("/v2/models/stats", statistics_from_json)

    def register_system(self, name: str, key: str, byte_size: int) -> Exchange[None]:
        """Make the file `key` of /dev/shm known to the server."""
        said = {"key": key, "offset": 0, "byte_size": byte_size}
        return _post(f"{_region('system', name)}/register", _nothing, said)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Exchange[None]:
        """Make memory of a GPU known to the server; raw_handle in base64."""
        handle = {"b64": raw_handle.decode("ascii")}
        said = {"raw_handle": handle, "device_id": device_id, "byte_size": byte_size}
        return _post(f"{_region('cuda', name)}/register", _nothing, said)

    def unregister(self, kind: str, name: str) -> Exchange[None]:
        """End that; kind as "system"."""
        return _post(f"{_region(kind, name)}/unregister", _nothing)

    def registered(self, kind: str) -> Exchange[dict[str, str]]:
        """The regions of a kind: name -> key, which is "" for CUDA."""

        def read(rows: Any) -> dict[str, str]:
            return {str(row["name"]): str(row.get("key", "")) for row in rows}

        return _get(f"/v2/{kind}sharedmemory/status", read)


def _get(path: str, read: Callable[[Any], T]) -> Exchange[T]:
    return Exchange(HttpRequest("GET", path), lambda response: read_json(response, read))


def _post(path: str, read: Callable[[Any], T], said: object = None) -> Exchange[T]:
    body = b"" if said is None else json.dumps(said).encode()
    headers = {"Content-Type": "application/json"}
    request = HttpRequest("POST", path, body, headers)
    return Exchange(request, lambda response: read_json(response, read))


def read_json(response: HttpResponse, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of a response's JSON; None stands for an empty one.

    Raises:
        RequestError: For an error of the server, and for what no Triton server sends.
    """
    if response.status != 200:
        raise from_http(response.status, response.body)
    try:
        return read(json.loads(response.body) if response.body else None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise not_triton("http") from error


def _is_ok(response: HttpResponse) -> bool:
    return response.status == 200


def _path(model: str) -> str:
    return f"/v2/models/{quote(model, safe='')}"


def _region(kind: str, name: str) -> str:
    return f"/v2/{kind}sharedmemory/region/{quote(name, safe='')}"


def _tensors(rows: Any) -> list[tuple[Any, Any, list[Any]]]:
    return [(row["name"], row["datatype"], list(row["shape"])) for row in rows]


def _nothing(_: Any) -> None:
    return None


def infer_request(call: Call, compression: Compression | None) -> HttpRequest:
    """Return the request of a call, its tensors in binary behind the JSON."""
    module = import_client("http")
    sequence: dict[str, Any] = {}
    if call.sequence is not None:
        step = call.sequence
        sequence = {
            "sequence_id": step.id,
            "sequence_start": step.start,
            "sequence_end": step.end,
        }
    body, json_bytes = module.InferenceServerClient.generate_request_body(
        [_input(module, tensor) for tensor in call.inputs],
        outputs=[_output(module, output) for output in call.outputs],
        request_id=call.request_id,
        **sequence,
    )
    headers = {"Content-Type": "application/octet-stream"}
    if json_bytes is not None:
        headers["Inference-Header-Content-Length"] = str(json_bytes)
    if compression is not None:
        body = gzip.compress(body, _LEVEL) if compression == "gzip" else zlib.compress(body, _LEVEL)
        headers |= {"Content-Encoding": compression, "Accept-Encoding": compression}
    return HttpRequest("POST", f"/v2/models/{quote(call.model, safe='')}/infer", body, headers)


def read_infer_response(
    response: HttpResponse, call: Call, compression: Compression | None
) -> Response:
    """Return the response to a call.

    Args:
        compression: What was asked for. Raises RequestError for an error of the server, and for
            tensors that are not what the response says of them.
    """
    if response.status != 200:
        raise from_http(response.status, response.body, request_id=call.request_id)
    shared = {output.name for output in call.outputs if output.shared is not None}
    tensors: dict[str, Any] = {}
    in_region: dict[str, SharedOutput] = {}
    try:
        result = import_client("http").InferenceServerClient.parse_response_body(
            inflate(response.body, response.headers.get("content-encoding"), compression),
            header_length=response.headers.get("inference-header-content-length"),
        )
        header = result.get_response()
        for output in header.get("outputs", []):
            name = output["name"]
            shape = checked_shape(output["shape"])
            datatype = checked_datatype(output["datatype"])
            if name in shared:
                in_region[name] = SharedOutput(shape, datatype)
            else:
                tensors[name] = result.as_numpy(name)
        request_id = header.get("id", call.request_id)
        if request_id != call.request_id:
            raise ValueError(f"it answers the request {request_id!r}")
    except (*_UNREADABLE, _tritonclient_error()) as error:
        raise RequestError(
            "internal", f"the server's answer cannot be read: {error}", request_id=call.request_id
        ) from error
    asked = dict.fromkeys(o.name for o in call.outputs if o.name not in shared)
    return Response({**asked, **tensors}, in_region, request_id=request_id)


_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,  # of numbers that their type does not hold
    KeyError,
    AttributeError,
    RecursionError,  # of JSON
    struct.error,
)


def _tritonclient_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("tritonclient.utils").InferenceServerException
    return error


def _input(module: Any, tensor: InputTensor) -> Any:
    message = module.InferInput(tensor.name, list(tensor.shape), tensor.datatype)
    if isinstance(tensor.data, SharedSlice):
        message.set_shared_memory(*_place(tensor.data))
        return message
    message.set_data_from_numpy(elements(tensor))
    return message


def _output(module: Any, output: OutputTensor) -> Any:
    message = module.InferRequestedOutput(output.name, class_count=output.class_count)
    if output.shared is not None:
        message.set_shared_memory(*_place(output.shared))
    return message


def _place(shared: SharedSlice) -> tuple[str, int, int]:
    return shared.region, shared.byte_size, shared.offset


def config_from_json(model: str, said: Any) -> dict[str, Any]:
    """Return what `plain_fields` does, of the configuration as Triton's HTTP service gives it.

    Fields that tritonclient does not know are left out, as gRPC does. Raises RequestError for what
    is no configuration.
    """
    message = import_client("grpc").model_config_pb2.ModelConfig()
    return _parsed(said, message, f"the configuration of model '{model}'")


def statistics_from_json(said: Any) -> list[dict[str, Any]]:
    """Return each model's statistics in the same way; see `config_from_json`."""
    message = import_client("grpc").service_pb2.ModelStatisticsResponse()
    models: list[dict[str, Any]] = _parsed(said, message, "the statistics").get("model_stats", [])
    return models


def _parsed(said: Any, message: Any, what: str) -> dict[str, Any]:
    json_format = importlib.import_module("google.protobuf.json_format")
    try:
        json_format.ParseDict(dict(said), message, ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError) as error:
        raise RequestError("internal", f"{what} cannot be read: {error}") from error
    return plain_fields(message)


def check_size(byte_size: int, most_bytes: int) -> None:
    """Raise RequestError for a response that has more bytes than one may have."""
    if byte_size > most_bytes:
        raise RequestError(
            "internal",
            f"the server's answer is larger than {most_bytes} bytes, the limit; ask for fewer "
            "outputs, or in smaller batches",
        )


def inflate(body: bytes, encoding: str | None, asked: Compression | None) -> bytes:
    """Return what a body holds whose header Content-Encoding is `encoding`.

    Args:
        asked: The compression that the request has asked for. Raises ValueError for another one,
            and for what is not compressed so, and RequestError for what inflates to more than the
            limit.
    """
    if not encoding or encoding == "identity":
        return body
    if asked is None or encoding != asked:
        raise ValueError(f"it is compressed as {encoding!r}, which was not asked for")
    stream = zlib.decompressobj(_WINDOW_BITS[asked])
    try:
        content = stream.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it is no {encoding}: {error}") from error
    check_size(len(content), MOST_BYTES)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is no whole {encoding}")
    return content
