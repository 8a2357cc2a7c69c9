"""The steps of the shipped cascade, taken by a client one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.triton.calls import Arrays, infer, strings

THRESHOLD = 0.25
BATCH_SIZE = 16


def by_hand(client: Any, files: Sequence[bytes]) -> Arrays:
    """All outputs of the cascade for a batch of files."""
    found = infer(client, "detect", {"encoded": strings(files)})
    shape = found["detection_scores"].shape
    found["class_ids"] = np.full(shape, -1, np.int32)
    found["class_scores"] = np.zeros(shape, np.float32)
    found["class_labels"] = np.full(shape, b"", np.object_)
    for i, file in enumerate(files):
        count = found["num_detections"][i, 0]
        scores = found["detection_scores"][i, :count]
        _classify_rows(client, file, i, np.flatnonzero(scores > THRESHOLD), found)
    return found


def _classify_rows(client: Any, file: bytes, image: int, rows: np.ndarray, found: Arrays) -> None:
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
        response = infer(client, "classify", {"images": cut["images"][part]})
        for name, values in response.items():
            found[name][image, rows[part]] = values[:, 0]
