"""Requests whose client has gone while they waited are not worked on."""

from __future__ import annotations

import queue

import jpegs
import numpy as np
from calls import grpc_inputs, infer, strings
from running_server import RunningServer, wait_for

WAITING = 4
# Keeps the one instance at work long enough for requests to queue up and be cancelled behind it.
SLOW_FILE = jpegs.encode(jpegs.photo(2000, 2000, seed=1), quality=60, progressive=True)
LARGE = strings([SLOW_FILE] * 16)
SMALL = strings([jpegs.photo_jpeg(40, 50)])


def test_cancelled_while_queued(client, server: RunningServer):
    answers: queue.Queue[object] = queue.Queue()

    def images_done() -> float:
        return server.metric("endcap_preprocess_images_total", model="pre_queue")

    def pending() -> float:
        return server.metric("nv_inference_pending_request_count", model="pre_queue")

    def send(encoded: np.ndarray, request_id: str) -> object:
        return client.async_infer(
            "pre_queue",
            grpc_inputs({"encoded": encoded}),
            callback=lambda result, error: answers.put(error),
            request_id=request_id,
        )

    done = images_done()
    send(LARGE, "at-work")
    send(LARGE, "next-in-line")
    wait_for(lambda: pending() == 1)
    waiting = [send(SMALL, f"given-up-{i}") for i in range(WAITING)]
    wait_for(lambda: pending() == 1 + WAITING)
    for call in waiting:
        call.cancel()

    errors = [answers.get(timeout=60) for _ in range(2 + WAITING)]
    cancelled = [error for error in errors if error is not None]
    assert len(cancelled) == WAITING
    assert {error.status() for error in cancelled} == {"StatusCode.CANCELLED"}

    infer(client, "pre_queue", {"encoded": SMALL})  # comes behind all of them
    assert images_done() == done + 2 * len(LARGE) + 1
    for i in range(WAITING):
        (line,) = wait_for(lambda i=i: server.log_lines(f"given-up-{i}"))
        assert line.startswith("I")
        assert "the request was cancelled" in line
