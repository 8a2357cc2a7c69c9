"""Time of requests inside a server, from Triton's statistics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from endcap.client import ClientError, Connection, ConnectionOptions, RequestError
from endcap.client.address import Address

_NS_PER_MS = 1e6
_TIMEOUT_S = 10.0
_SETTLED_AFTER_S = 0.05
_SETTLES_WITHIN_S = 2.0
_NO_REQUEST = {"count": 0, "ns": 0}

# By model and kind of duration, count and ns.
_Counts = Mapping[str, Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True)
class ModelTime:
    """Mean times of a model's requests, in milliseconds.

    Attributes:
        queue: Waiting for an instance.
        transfer: Preparing inputs and handing over outputs.
        compute: Execution of the model.
        total: All of it, as Triton counts it.
    """

    model: str
    requests: int
    queue: float
    transfer: float
    compute: float
    total: float


@dataclass(frozen=True)
class ServerTimes:
    """Mean times of the requests that a server counted.

    Attributes:
        whole: The model of the requests; None where only its steps were called, as by a client
            that runs some of them itself.
        steps: The composing models of an ensemble, in their order.
    """

    whole: ModelTime | None
    steps: list[ModelTime]

    @property
    def total(self) -> float:
        """Time of the whole request, else the sum of the steps."""
        return self.whole.total if self.whole else sum(step.total for step in self.steps)

    @property
    def queue(self) -> float:
        """Time in the queues of the model and of its steps."""
        own = self.whole.queue if self.whole else 0.0
        return own + sum(step.queue for step in self.steps)

    @property
    def compute(self) -> float:
        """Execution time of the model, or of an ensemble's steps."""
        if self.whole and not self.steps:
            return self.whole.compute
        return sum(step.compute for step in self.steps)

    @property
    def steps_overlap(self) -> bool:
        """Whether a step begins while the one before hands over its outputs."""
        return sum(step.total for step in self.steps) > self.total


class ServerStatistics:
    """Statistics of a model and, for an ensemble, of its steps since the last `restart`.

    Args:
        address: Of the server.
        model: Its name.
        options: Of the connection, without deadline and retries.
        settle: Whether to wait until the statistics no longer change; not under load.

    Attributes:
        problem: Why the last call gave nothing, None where it did.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        *,
        options: ConnectionOptions | None = None,
        settle: bool = True,
    ) -> None:
        self.problem: str | None = None
        self._model = model
        self._settle = settle
        self._steps: list[str] | None = None
        self._before: _Counts | None = None
        options = replace(options or ConnectionOptions(), timeout_s=_TIMEOUT_S, retries=0)
        self._connection = Connection(address, options)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def restart(self) -> None:
        """Begin again: `times` is about the requests from now on."""
        self._before = self._read_settled()

    def times(self) -> ServerTimes | None:
        """Return the mean times of the requests since `restart`; None, with `problem`, for none."""
        before = self._before
        if before is None:
            return None
        now = self._read_settled()
        if now is None:
            return None

        def time_of(name: str) -> list[ModelTime]:
            old, new = before.get(name, {}), now.get(name, {})
            return [_model_time(name, old, new)] if _count(new) > _count(old) else []

        whole = time_of(self._model)
        steps = [each for name in self._steps or () for each in time_of(name)]
        if not whole and not steps:
            self.problem = "the server counted no request"
            return None
        return ServerTimes(whole[0] if whole else None, steps)

    def _read_settled(self) -> _Counts | None:
        """Read until nothing changes: a model counts a request after its response is sent."""
        self.problem = None
        deadline = time.monotonic() + (_SETTLES_WITHIN_S if self._settle else 0.0)
        try:
            if self._steps is None:
                self._steps = self._read_steps()
            last = self._read()
            while time.monotonic() < deadline:  # other clients may keep the server busy
                time.sleep(_SETTLED_AFTER_S)
                now = self._read()
                if now == last:
                    break
                last = now
        except (RequestError, ClientError) as error:
            self.problem = f"the server gives no statistics ({error})"
            return None
        return last

    def _read_steps(self) -> list[str]:
        config = self._connection.config(self._model)
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        return list(dict.fromkeys(str(step["model_name"]) for step in steps))

    def _read(self) -> _Counts:
        """Return the statistics of every model by its name, summed over its versions."""
        models: dict[str, dict[str, dict[str, int]]] = {}
        for version in self._connection.statistics():
            sums = models.setdefault(version["name"], {})
            for kind, numbers in version.get("inference_stats", {}).items():
                so_far = sums.get(kind, _NO_REQUEST)
                sums[kind] = {
                    name: so_far[name] + int(numbers.get(name, 0)) for name in _NO_REQUEST
                }
        return models


def _count(numbers: Mapping[str, Mapping[str, int]]) -> int:
    return numbers.get("success", _NO_REQUEST)["count"]


def _model_time(
    name: str, before: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]
) -> ModelTime:
    requests = _count(now) - _count(before)

    def mean_ms(*kinds: str) -> float:
        ns = sum(now.get(k, _NO_REQUEST)["ns"] - before.get(k, _NO_REQUEST)["ns"] for k in kinds)
        return ns / requests / _NS_PER_MS

    return ModelTime(
        name,
        requests,
        queue=mean_ms("queue"),
        transfer=mean_ms("compute_input", "compute_output"),
        compute=mean_ms("compute_infer"),
        total=mean_ms("success"),
    )
