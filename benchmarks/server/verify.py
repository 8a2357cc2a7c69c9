"""Verification of the Python-backend models against the compiled ones, before any load."""

from __future__ import annotations

from typing import Any

import numpy as np
from tritonclient import grpc

MOST_STEPS = 1
# Boxes and scores come through one network from tensors that may differ by a step here and there.
BOX_PIXELS = 0.5
SCORE = 1e-2


class VerificationError(Exception):
    """The outputs of two models differ; the message says how."""


def tensors(client: Any, ours: str, theirs: str, encoded: bytes) -> str:
    """Compare `images` and `geometry` of two preprocess models; a few words on success."""
    first, second = _infer(client, ours, encoded), _infer(client, theirs, encoded)
    steps = np.rint((first.as_numpy("images") - second.as_numpy("images")) * 255)
    worst, differing = int(np.abs(steps).max()), int(np.count_nonzero(steps))
    if worst > MOST_STEPS:
        raise VerificationError(f"images of {ours} and {theirs} differ by {worst} steps")
    places = first.as_numpy("geometry"), second.as_numpy("geometry")
    if not np.allclose(places[0], places[1], rtol=1e-6):
        raise VerificationError(f"geometry {places[0]} of {ours}, {places[1]} of {theirs}")
    return "equal" if differing == 0 else f"{differing} of {steps.size} values differ by 1 step"


def detections(client: Any, ours: str, theirs: str, encoded: bytes) -> str:
    """Compare what two ensembles detect; a few words on success."""
    first, second = _infer(client, ours, encoded), _infer(client, theirs, encoded)
    counts = [int(each.as_numpy("num_detections")[0, 0]) for each in (first, second)]
    if counts[0] == 0 or counts[0] != counts[1]:
        raise VerificationError(f"{ours} detects {counts[0]}, {theirs} {counts[1]} objects")
    for name, tolerance in (("detection_boxes", BOX_PIXELS), ("detection_scores", SCORE)):
        difference = np.abs(first.as_numpy(name) - second.as_numpy(name)).max()
        if difference > tolerance:
            raise VerificationError(f"{name} of {ours} and {theirs} differ by {difference:g}")
    classes = [each.as_numpy("detection_classes")[0, : counts[0]] for each in (first, second)]
    if not np.array_equal(*classes):
        raise VerificationError(f"classes of {ours} and {theirs} differ")
    return f"same {counts[0]} detections"


def _infer(client: Any, model: str, encoded: bytes) -> Any:
    image = grpc.InferInput("encoded", [1, 1], "BYTES")
    image.set_data_from_numpy(np.array([[encoded]], np.object_))
    return client.infer(model, [image])
