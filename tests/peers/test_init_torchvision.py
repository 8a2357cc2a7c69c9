"""Detectors of torchvision, exported, behind `endcap init`: the same as torchvision finds itself.

Weights are random, with final layers that spread the scores. A picture goes through torchvision's
own pipeline, whose resizing and normalisation are inside the exported network, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torchvision.transforms.functional import to_tensor

from tests.peers.exporting import (
    SERVER_PYTHON,
    SIDE,
    WITHOUT_SERVER,
    export_torchvision,
    serve,
    spread_logits,
)
from tests.peers.torchvision_networks import faster_rcnn, retinanet, ssdlite
from tests.support.tolerances import PEER_NETWORK_BOX_PIXELS, PEER_NETWORK_SCORE

pytestmark = pytest.mark.skipif(SERVER_PYTHON is None, reason=WITHOUT_SERVER)


@pytest.mark.parametrize("as_list", [False, True])
def test_ssd(tmp_path: Path, as_list: bool) -> None:
    torch.manual_seed(0)
    network, layers = ssdlite()
    spread_logits(network, layers, 3)
    model = export_torchvision(tmp_path, network, 320, as_list=as_list)
    response = serve(model)
    picture = to_tensor(Image.open(model.with_suffix(".jpg")).convert("RGB"))
    with torch.no_grad():
        (found,) = network.eval()([picture])
    boxes, scores, labels = (found[name].numpy() for name in ("boxes", "scores", "labels"))
    assert_same(response, boxes, scores, labels - 1)


@pytest.mark.parametrize(
    ("make", "first_class"), [(faster_rcnn, 1), (retinanet, 0)], ids=["FasterRCNN", "RetinaNet"]
)
def test_detectors_that_keep_the_aspect_ratio(
    tmp_path: Path, make: Callable[[], tuple[Any, list[Any]]], first_class: int
) -> None:
    """Against the exported network, on the images that were served.

    PyTorch's own run of it keeps other boxes: with random weights many proposals, and overlaps at
    the threshold, are equal.
    """
    torch.manual_seed(0)
    network, layers = make()
    spread_logits(network, layers, 3)
    model = export_torchvision(tmp_path, network, SIDE, as_list=False)
    response = serve(model)
    session = onnxruntime.InferenceSession(model)
    given = session.run(None, {session.get_inputs()[0].name: response["images"]})
    (boxes,) = (each for each in given if each.ndim == 2)
    scores, labels = sorted((each for each in given if each.ndim == 1), key=_is_integer)
    scale_x, scale_y, pad_x, pad_y = response["geometry"][0, :4]
    assert (pad_x, pad_y) == (0, 0)  # the rest of the image is padded, as torchvision pads
    boxes = boxes / np.float32([scale_x, scale_y] * 2)
    assert_same(response, boxes, scores, labels - first_class)


def _is_integer(array: Any) -> bool:
    return bool(array.dtype.kind == "i")


def assert_same(response: dict[str, Any], boxes: Any, scores: Any, classes: Any) -> None:
    """The served detections are those of the rows, whose boxes are in pixels of the picture."""
    kept = scores > 0.25
    width, height = response["geometry"][0, 4:6]
    boxes = np.clip(boxes[kept], 0, [width, height] * 2)
    count = int(response["num_detections"][0, 0])
    assert count == kept.sum() >= 20
    given = {
        name: response[f"detection_{name}"][0, :count] for name in ("boxes", "scores", "classes")
    }
    for box, score, class_id in zip(boxes, scores[kept], classes[kept], strict=True):
        # Rows of nearly equal scores may have changed places.
        distances = np.abs(given["boxes"] - box).max(axis=1)
        near = (distances < PEER_NETWORK_BOX_PIXELS) & (given["classes"] == class_id)
        assert near.any(), f"{box} of class {class_id}: the nearest is {distances.min()} away"
        assert np.abs(given["scores"][near] - score).min() < PEER_NETWORK_SCORE
