"""Where the time of requests goes inside a server, from Triton's own statistics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from endcap.client import ClientError, Connection, ConnectionOptions, RequestError
from endcap.client.address import Address

_NS_PER_MS = 1e6
_TIMEOUT_S = 10.0
_SETTLED_AFTER_S = 0.05
_SETTLES_WITHIN_S = 2.0
_NO_REQUEST = {"count": 0, "ns": 0}


@dataclass(frozen=True)
class ModelTime:
    """A model's share in one request, milliseconds on average.

    Attributes:
        queue: Waiting for an instance; transfer: preparing inputs and handing over outputs;
            compute: the model itself; total: all of it, as Triton counts it.
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

    Args:
        model: Its name.
        options: Of the connection, whose deadline and retries are its own.
        settled: Whether to wait, at both ends, for the statistics to come to rest; not under load.
            Raises ClientError when the server does not give them.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        *,
        options: ConnectionOptions | None = None,
        settled: bool = True,
    ) -> None:
        self.model = model
        self._settled = settled
        options = replace(options or ConnectionOptions(), timeout_s=_TIMEOUT_S, retries=0)
        self._connection = Connection(address, options)
        try:
            with _translated():
                self._steps = self._read_steps()
            self.restart()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def restart(self) -> None:
        """Begin anew: `times` is of the requests from now on."""
        self._before = self._look()

    def times(self) -> ServerTimes | None:
        """Return the mean times of the requests since the start; None where none came."""
        names = (self.model, *self._steps)
        found = {each.model: each for each in self.asked()}
        if any(name not in found for name in names):
            return None
        whole, *steps = (found[name] for name in names)
        return ServerTimes(whole, steps)

    def asked(self) -> list[ModelTime]:
        """Return the mean times of the model and its steps, of those that requests came to."""
        now = self._look()
        return [
            _model_time(name, self._before.get(name, {}), now[name])
            for name in (self.model, *self._steps)
            if _count(now.get(name, {})) > _count(self._before.get(name, {}))
        ]

    def _read_steps(self) -> list[str]:
        config = self._connection.config(self.model)
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        return list(dict.fromkeys(str(step["model_name"]) for step in steps))

    def _look(self) -> dict[str, Mapping[str, Any]]:
        return self._read_settled() if self._settled else self._read()

    def _read_settled(self) -> dict[str, Mapping[str, Any]]:
        """Read until nothing changes: a model counts a request after its answer is on its way."""
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
        """Return the statistics of every model by its name, its versions' numbers added up."""
        with _translated():
            statistics = self._connection.statistics()
        models: dict[str, dict[str, dict[str, int]]] = {self.model: {}}
        for version in statistics:
            sums = models.setdefault(version["name"], {})
            for kind, numbers in version.get("inference_stats", {}).items():
                add = {name: int(numbers.get(name, 0)) for name in _NO_REQUEST}
                so_far = sums.get(kind, _NO_REQUEST)
                sums[kind] = {name: so_far[name] + add[name] for name in _NO_REQUEST}
        return dict(models)


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
    try:
        yield
    except RequestError as error:
        raise ClientError(f"the server gives no statistics ({error})") from error
