"""Load on a preprocess model with max_queue_cost: more requests than it accepts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.client.errors import RequestError
from tests.support import jpegs
from tests.triton.calls import grpc_inputs, strings
from tests.triton.running_server import wait_for

# Predicted to take some tens of milliseconds, in few bytes.
SLOW = jpegs.encode(np.tile(jpegs.photo(500, 500, seed=3), (4, 4, 1)), quality=30, progressive=True)
FLOOD = 40


class Flood:
    """Keeps requests in flight, more than the model accepts."""

    def __init__(self, client: Any, model: str, *, batched: bool, file: bytes = SLOW) -> None:
        self._client = client
        self._model = model
        self._inputs = grpc_inputs({"encoded": strings([file], batched=batched)})
        self._outputs = [grpc_client.InferRequestedOutput("status")]
        self._changed = threading.Condition()
        self._in_flight = 0
        self._stopping = False
        self.outcomes: Counter[str] = Counter()

    def start(self, count: int) -> None:
        for _ in range(count):
            self._send()

    def stop(self) -> None:
        """Return when each request has its response."""
        with self._changed:
            self._stopping = True
            assert self._changed.wait_for(lambda: self._in_flight == 0, timeout=60)

    def _send(self) -> None:
        with self._changed:
            self._in_flight += 1
        self._client.async_infer(
            self._model, self._inputs, callback=self._finish, outputs=self._outputs
        )

    def _finish(self, result: Any, error: Any) -> None:
        with self._changed:
            self.outcomes["ok" if error is None else str(error.status())] += 1
            again = not self._stopping
        if again:
            if error is not None:
                time.sleep(0.002)
            self._send()
        with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()


@contextlib.contextmanager
def flood(client: Any, model: str, *, batched: bool = True) -> Iterator[Flood]:
    load = Flood(client, model, batched=batched)
    load.start(FLOOD)
    try:
        wait_for(lambda: load.outcomes["StatusCode.UNAVAILABLE"] > 0)
        yield load
    finally:
        load.stop()


def refusal(send: Any) -> Any:
    """The first error of a request that is repeated until there is one."""

    def error() -> Any:
        try:
            send()
        except (InferenceServerException, RequestError) as caught:
            return caught
        return None

    return wait_for(error)
