"""Requests whose client has gone: what the server makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import jpegs
from tests.triton.calls import grpc_inputs, infer, strings
from tests.triton.running_server import RunningServer, wait_for

MODEL = "pre_queue"
WAITING = 4
# Keeps the one thread at work long enough for requests to queue up and be cancelled behind it.
SLOW_FILE = jpegs.encode(jpegs.photo(2000, 2000, seed=1), quality=60, progressive=True)
LARGE = strings([SLOW_FILE] * 16)
# What the backend takes: a request at work, one waiting, and one that wants to wait.
TAKEN = 3
SMALL = strings([jpegs.photo_jpeg(40, 50)])


class Observed:
    """What the server itself counts for the model."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server

    def images_done(self) -> float:
        return self._server.metric("endcap_preprocess_images_total", model=MODEL)

    def cancelled(self) -> float:
        return self._server.metric(
            "endcap_preprocess_failed_total", model=MODEL, reason="cancelled"
        )

    def pending(self) -> float:
        return self._server.metric("nv_inference_pending_request_count", model=MODEL)

    def failed_requests(self) -> int:
        return int(self._server.statistics(MODEL)["inference_stats"]["fail"]["count"])

    def assert_logged_as_cancelled(self, request_id: str) -> None:
        (line,) = wait_for(lambda: self._server.log_lines(request_id))
        assert line.startswith("I")
        assert f"'{request_id}': the request was cancelled" in line


@pytest.fixture
def observed(server: RunningServer) -> Observed:
    return Observed(server)


def send(client, encoded: np.ndarray, request_id: str) -> object:
    """A request in flight; what its own client makes of it does not matter here."""
    return client.async_infer(
        MODEL,
        grpc_inputs({"encoded": encoded}),
        callback=lambda result, error: None,
        request_id=request_id,
    )


def test_cancelled_while_queued(client, observed: Observed):
    done, cancelled = observed.images_done(), observed.cancelled()
    failed = observed.failed_requests()
    for i in range(TAKEN + 1):
        send(client, LARGE, f"keeps-it-busy-{i}")
    wait_for(lambda: observed.pending() == 1)
    waiting = [send(client, SMALL, f"given-up-{i}") for i in range(WAITING)]
    wait_for(lambda: observed.pending() == 1 + WAITING)
    for call in waiting:
        call.cancel()

    infer(client, MODEL, {"encoded": SMALL})  # comes behind all of them
    assert observed.images_done() == done + (TAKEN + 1) * len(LARGE) + 1
    assert observed.cancelled() == cancelled + WAITING
    wait_for(lambda: observed.failed_requests() == failed + WAITING)
    for i in range(WAITING):
        observed.assert_logged_as_cancelled(f"given-up-{i}")


def test_cancelled_while_at_work(client, observed: Observed):
    done, cancelled = observed.images_done(), observed.cancelled()
    failed = observed.failed_requests()
    names = [f"left-behind-{i}" for i in range(TAKEN + 1)]
    calls = [send(client, LARGE, name) for name in names]
    wait_for(lambda: observed.pending() == 1)  # so another one is at work, whichever it is
    for call in calls:
        call.cancel()

    infer(client, MODEL, {"encoded": SMALL})
    assert observed.images_done() == done + 1
    assert observed.cancelled() == cancelled + len(names)
    wait_for(lambda: observed.failed_requests() == failed + len(names))
    for name in names:
        observed.assert_logged_as_cancelled(name)
