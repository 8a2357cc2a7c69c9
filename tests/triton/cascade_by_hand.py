"""The steps of the cascade in `bls_models`, as a client would take them one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.triton.bls_models import ROWS, THRESHOLD
from tests.triton.calls import Arrays, infer, strings


def by_hand(client: Any, file: bytes) -> Arrays:
    """The response of the cascade for one image, with a batch dimension."""
    response = infer(client, "found", {"encoded": strings([file])})
    ids = np.full((1, ROWS), -1, np.int32)
    scores = np.zeros((1, ROWS), np.float32)
    labels = np.full((1, ROWS), b"", np.object_)
    for row in range(int(response["num_detections"][0, 0])):
        kind = int(response["detection_classes"][0, row])
        if kind == 3 or not response["detection_scores"][0, row] > THRESHOLD:
            continue
        regions = {
            "encoded": strings([file], batched=False),
            "rois": response["detection_boxes"][0, row : row + 1],
        }
        crop = infer(client, "rois", regions)
        if crop["status"][0] != 0:
            continue
        images = crop["images"][0] if kind == 0 else crop["images"]
        classes = infer(client, "kinds_single" if kind == 0 else "kinds", {"images": images})
        ids[0, row] = classes["class_ids"].item()
        scores[0, row] = classes["class_scores"].item()
        labels[0, row] = b"" if kind == 0 else classes["class_labels"].item()
    return {**response, "class_ids": ids, "class_scores": scores, "class_labels": labels}
