"""Asks a decoupled model: a stream for each request, a response for each detection.

Triton's HTTP endpoint refuses decoupled models, so this pipeline is over gRPC.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from tritonclient import grpc
from tritonclient.grpc import aio

from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.http_calls import CallError, encoded
from benchmarks.pipelines.services import Running

_ROW = ("detection_boxes", "detection_scores", "detection_classes", "class_labels", "class_scores")


@asynccontextmanager
async def stream(
    service: Running, model: str, image: bytes
) -> AsyncIterator[Callable[[], Awaitable[Answer]]]:
    """The call yields when the final response has come."""
    file = grpc.InferInput("encoded", [1], "BYTES")
    file.set_data_from_numpy(encoded(image, 1))
    request = {"model_name": model, "inputs": [file], "enable_empty_final_response": True}
    async with aio.InferenceServerClient(service.grpc) as client:

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield request

        async def call() -> Answer:
            rows: list[list[Any]] = []
            async for result, error in client.stream_infer(requests()):
                if error is not None:
                    raise CallError(str(error))
                if result.as_numpy("detection_scores") is not None:
                    rows.append([result.as_numpy(name)[0] for name in _ROW])
                if result.get_response().parameters["triton_final_response"].bool_param:
                    break
            return _answer(rows)

        yield call


def _answer(rows: list[list[Any]]) -> Answer:
    boxes, scores, classes, labels, class_scores = zip(*rows, strict=True) if rows else ((),) * 5
    return Answer(
        np.array(boxes, np.float32).tolist(),
        np.array(scores, np.float32).tolist(),
        np.array(classes).tolist(),
        [label.decode() for label in labels],
        np.array(class_scores, np.float32).tolist(),
    )
