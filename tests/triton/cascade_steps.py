"""The steps of the shipped cascade, taken by a client one after the other, and its streams."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
from calls import Arrays, grpc_inputs, infer, strings, to_arrays
from running_server import RunningServer

THRESHOLD = 0.25
BATCH_SIZE = 16
RING = 5


def by_hand(client: Any, files: Sequence[bytes]) -> Arrays:
    """All outputs of the cascade for a batch of files."""
    found = infer(client, "detect", {"encoded": strings(files)})
    shape = found["detection_scores"].shape
    found["class_ids"] = np.full(shape, -1, np.int32)
    found["class_scores"] = np.zeros(shape, np.float32)
    found["class_labels"] = np.full(shape, b"", np.object_)
    for i, file in enumerate(files):
        count = found["num_detections"][i, 0]
        scores, classes = (
            found["detection_scores"][i, :count],
            found["detection_classes"][i, :count],
        )
        above = scores > THRESHOLD
        for model, chosen in (("classify", classes != RING), ("classify_rings", classes == RING)):
            _classify_rows(client, model, file, i, np.flatnonzero(above & chosen), found)
    return found


def _classify_rows(
    client: Any, model: str, file: bytes, image: int, rows: np.ndarray, found: Arrays
) -> None:
    if not len(rows):
        return
    inputs = {
        "encoded": strings([file], batched=False),
        "rois": found["detection_boxes"][image, rows],
    }
    cut = infer(client, "preprocess_rois", inputs)
    assert not cut["status"].any()
    for start in range(0, len(rows), BATCH_SIZE):
        part = slice(start, start + BATCH_SIZE)
        response = infer(client, model, {"images": cut["images"][part]})
        for name, values in response.items():
            found[name][image, rows[part]] = values[:, 0]


def stream(server: RunningServer, model: str, file: bytes, **options: object) -> list[object]:
    """All responses to one request: arrays, or the error; the final one has to be the last."""
    responses: queue.Queue[tuple[object, object]] = queue.Queue()
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            model,
            grpc_inputs({"encoded": strings([file], batched=False)}),
            enable_empty_final_response=True,
            **options,
        )
        received: list[object] = []
        while True:
            result, error = responses.get(timeout=30)
            if error is not None:
                return [*received, error]
            if result.get_response().outputs:
                received.append(to_arrays(result))
            if result.get_response().parameters["triton_final_response"].bool_param:
                assert responses.empty()
                return received
