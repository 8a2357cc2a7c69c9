"""What the package makes of pictures with the shipped network, for comparison with a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import endcap
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
_LOWEST_SCORE = 0.4  # as postprocess/config.pbtxt says


def detect_in_python(images: Sequence[Any]) -> list[endcap.ImageDetections]:
    """What the package makes of images with the network of the shipped repository, each alone."""
    preprocess = endcap.Preprocessor("ultralytics")
    session = onnxruntime.InferenceSession(
        str(SHIPPED / "detector" / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    postprocess = endcap.Postprocessor("yolov8", 6, score_threshold=_LOWEST_SCORE)
    found = []
    for image in images:
        prepared = preprocess(image)
        (head,) = session.run(["head"], {"images": prepared.images})
        found.append(postprocess(head, prepared.geometry, prepared.status)[0])
    return found


def assert_close(found: Any, expected: endcap.ImageDetections) -> None:
    """Scores and boxes of a network that runs on other batches may differ in the last bits."""
    assert found.class_ids.tolist() == expected.class_ids.tolist()
    np.testing.assert_allclose(found.boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=SERVED_SCORE)
