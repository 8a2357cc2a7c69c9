"""Frames of sequences for the model `track`, and the ids that they have to get."""

from __future__ import annotations

from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client

import endcap
from tests.support.track_scenes import Frame, track

ROWS = 40


def inputs_of(frame: Frame) -> list[Any]:
    """The outputs of postprocess for a frame, in rows of which some do not count."""
    count = len(frame.scores)
    boxes = np.zeros((1, ROWS, 4), np.float32)
    scores = np.zeros((1, ROWS), np.float32)
    classes = np.zeros((1, ROWS), np.int32)
    boxes[0, :count] = frame.boxes
    scores[0, :count] = frame.scores
    classes[0, :count] = frame.class_ids
    tensors = {
        "num_detections": np.array([[count]], np.int32),
        "detection_boxes": boxes,
        "detection_scores": scores,
        "detection_classes": classes,
    }
    given = []
    for name, array in tensors.items():
        tensor = grpc_client.InferInput(
            name, array.shape, "FP32" if array.dtype == np.float32 else "INT32"
        )
        tensor.set_data_from_numpy(array)
        given.append(tensor)
    return given


def send(
    client: grpc_client.InferenceServerClient,
    frame: Frame,
    sequence: int | str,
    *,
    model: str = "track",
    start: bool = False,
    end: bool = False,
) -> tuple[list[int], int]:
    """The ids of the frame's detections, and its index."""
    result = client.infer(
        model,
        inputs_of(frame),
        sequence_id=sequence,
        sequence_start=start,
        sequence_end=end,
        client_timeout=60,
    )
    ids = result.as_numpy("track_ids")
    assert ids.shape == (1, ROWS)
    assert ids.dtype == np.int64
    count = len(frame.scores)
    assert (ids[0, count:] == -1).all()
    return ids[0, :count].tolist(), int(result.as_numpy("frame_index")[0, 0])


def track_here(scene: list[Frame], preset: str = "bytetrack") -> list[list[int]]:
    return track(scene, endcap.Tracker(preset))
