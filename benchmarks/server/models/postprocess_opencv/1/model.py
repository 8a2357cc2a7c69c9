"""A raw YOLOv8 head to detections in source pixels with OpenCV and NumPy."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

SCORE_THRESHOLD = 0.4  # as the shipped model `postprocess` has it
IOU_THRESHOLD = 0.7
MAX_DETECTIONS = 300


class TritonPythonModel:
    """All requests of a batch in one call."""

    def initialize(self, args: dict[str, str]) -> None:
        """OpenCV keeps to one thread: the instances share the CPUs."""
        cv2.setNumThreads(1)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order."""
        return [_respond(request) for request in requests]


def _respond(request: Any) -> Any:
    heads = pb_utils.get_input_tensor_by_name(request, "head").as_numpy()
    geometries = pb_utils.get_input_tensor_by_name(request, "geometry").as_numpy()
    count = len(heads)
    number = np.zeros((count, 1), np.int32)
    boxes = np.zeros((count, MAX_DETECTIONS, 4), np.float32)
    scores = np.zeros((count, MAX_DETECTIONS), np.float32)
    classes = np.zeros((count, MAX_DETECTIONS), np.int32)
    for index in range(count):
        found = _detect(heads[index], geometries[index])
        many = len(found[1])
        number[index] = many
        boxes[index, :many], scores[index, :many], classes[index, :many] = found
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("num_detections", number),
            pb_utils.Tensor("detection_boxes", boxes),
            pb_utils.Tensor("detection_scores", scores),
            pb_utils.Tensor("detection_classes", classes),
        ]
    )


def _detect(head: Any, geometry: Any) -> tuple[Any, Any, Any]:
    best = head[4:].max(axis=0)
    candidates = np.flatnonzero(best > SCORE_THRESHOLD)
    scores = best[candidates]
    classes = head[4:, candidates].argmax(axis=0).astype(np.int32)
    centre, size = head[:2, candidates].T, head[2:4, candidates].T
    corner = centre - size / 2
    kept = _suppress(np.concatenate([corner, size], axis=1), scores, classes)
    scale, pad, image = geometry[:2], geometry[2:4], geometry[4:6]
    low = ((corner[kept] - pad) / scale).clip(0, image)
    high = ((corner[kept] + size[kept] - pad) / scale).clip(0, image)
    return np.concatenate([low, high], axis=1), scores[kept], classes[kept]


def _suppress(boxes_xywh: Any, scores: Any, classes: Any) -> Any:
    if len(scores) == 0:
        return np.empty(0, np.int64)
    wide = boxes_xywh.astype(np.float64)
    kept = cv2.dnn.NMSBoxesBatched(wide, scores, classes, SCORE_THRESHOLD, IOU_THRESHOLD)
    return np.asarray(kept, np.int64).ravel()[:MAX_DETECTIONS]
