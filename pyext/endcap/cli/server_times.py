"""Where the time of requests goes inside a server, from Triton's own statistics."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.client import ClientError
from endcap.client.address import Address

_NS_PER_MS = 1e6
_TIMEOUT_S = 10.0
_SETTLED_AFTER_S = 0.05
_SETTLES_WITHIN_S = 2.0
_NO_REQUEST = {"count": 0, "ns": 0}


@dataclass(frozen=True)
class ModelTime:
    """A model's share in one request, milliseconds on average.

    queue: waiting for an instance; transfer: preparing inputs and handing over outputs; compute:
    the model itself; total: all of it, as Triton counts it.
    """

    model: str
    requests: int
    queue: float
    transfer: float
    compute: float
    total: float


@dataclass(frozen=True)
class ServerTimes:
    """A model's time in the server, and that of the models it is made of, in their order."""

    whole: ModelTime
    steps: list[ModelTime]

    @property
    def steps_overlap(self) -> bool:
        """Whether a step begins while the one before hands over its outputs."""
        return sum(step.total for step in self.steps) > self.whole.total


class ServerClock:
    """Reads a server's statistics of one model and of its steps, where it is an ensemble.

    Raises ClientError when the server does not give them.
    """

    def __init__(self, address: Address, model: str) -> None:
        self._grpc = address.protocol == "grpc"
        self._model = model
        module = importlib.import_module(f"tritonclient.{address.protocol}")
        self._client: Any = module.InferenceServerClient(address.authority)
        try:
            with _translated():
                self._steps = self._read_steps()
            self._before = self._read_settled()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def times(self) -> ServerTimes | None:
        """Returns the mean times of the requests since this was made; None where none came."""
        now = self._read_settled()
        names = (self._model, *self._steps)
        if any(_count(now.get(name, {})) <= _count(self._before.get(name, {})) for name in names):
            return None
        whole, *steps = (_model_time(name, self._before.get(name, {}), now[name]) for name in names)
        return ServerTimes(whole, steps)

    def _read_steps(self) -> list[str]:
        answer = self._client.get_model_config(self._model, **self._as_json())
        config = answer["config"] if self._grpc else answer
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        return list(dict.fromkeys(str(step["model_name"]) for step in steps))

    def _read_settled(self) -> dict[str, Mapping[str, Any]]:
        """Reads until nothing changes: a model counts a request after its answer is on its way."""
        deadline = time.monotonic() + _SETTLES_WITHIN_S
        last = self._read()
        while time.monotonic() < deadline:  # others may keep the server busy for ever
            time.sleep(_SETTLED_AFTER_S)
            now = self._read()
            if now == last:
                break
            last = now
        return last

    def _read(self) -> dict[str, Mapping[str, Any]]:
        """Returns the statistics of every model by its name, its versions' numbers added up."""
        with _translated():
            answer = self._client.get_inference_statistics(**self._as_json())
        models: dict[str, dict[str, dict[str, int]]] = {self._model: {}}
        for version in answer.get("model_stats", []):
            sums = models.setdefault(version["name"], {})
            for kind, numbers in version["inference_stats"].items():
                add = {name: int(numbers.get(name, 0)) for name in _NO_REQUEST}
                so_far = sums.get(kind, _NO_REQUEST)
                sums[kind] = {name: so_far[name] + add[name] for name in _NO_REQUEST}
        return dict(models)

    def _as_json(self) -> dict[str, Any]:
        return {"as_json": True, "client_timeout": _TIMEOUT_S} if self._grpc else {}


def _count(numbers: Mapping[str, Any]) -> int:
    return int(numbers.get("success", _NO_REQUEST)["count"])


def _model_time(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> ModelTime:
    requests = _count(now) - _count(before)

    def mean_ms(*kinds: str) -> float:
        ns: int = sum(
            now.get(k, _NO_REQUEST)["ns"] - before.get(k, _NO_REQUEST)["ns"] for k in kinds
        )
        return ns / requests / _NS_PER_MS

    return ModelTime(
        name,
        requests,
        queue=mean_ms("queue"),
        transfer=mean_ms("compute_input", "compute_output"),
        compute=mean_ms("compute_infer"),
        total=mean_ms("success"),
    )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    utils = importlib.import_module("tritonclient.utils")
    try:
        yield
    except utils.InferenceServerException as error:
        raise ClientError(f"the server gives no statistics ({error.message()})") from error
    except OSError as error:
        raise ClientError(f"the server gives no statistics ({error})") from error
