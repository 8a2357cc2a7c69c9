"""Tensors of torch: images, and those that require grad, refused but for boxes to suppress."""

from __future__ import annotations

import numpy as np
import pytest

import endcap
from endcap.client.images import ImageReader

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-peers` has it")

BOXES = [[0.0, 0.0, 9.0, 9.0], [1.0, 1.0, 9.0, 9.0]]
SCORES = [0.5, 0.75]


def test_boxes_of_a_network_in_training():
    """Kept indices have no gradient, so there is none to lose."""
    boxes = torch.tensor(BOXES, requires_grad=True)
    scores = torch.tensor(SCORES, requires_grad=True)
    kept = endcap.nms(boxes, scores, iou_threshold=0.5)
    np.testing.assert_array_equal(kept, endcap.nms(BOXES, SCORES, iou_threshold=0.5))
    assert boxes.requires_grad
    assert boxes[kept].requires_grad


def test_a_head_of_a_network_in_training():
    head = torch.rand(84, 40, requires_grad=True)
    postprocessor = endcap.Postprocessor()
    with pytest.raises(endcap.InvalidArgumentError, match=r"head .* give head.detach\(\)"):
        postprocessor(head)
    found, expected = postprocessor(head.detach()), postprocessor(head.detach().numpy())
    np.testing.assert_array_equal(found.boxes, expected.boxes)


@pytest.mark.parametrize("batched", [False, True])
def test_what_an_error_advises_makes_an_image_of_a_tensor(batched):
    """The form of images in torch: [C,H,W] of values of 0 to 1."""
    image = torch.ones((2, 3, 30, 40) if batched else (3, 30, 40), requires_grad=True)
    with pytest.raises(endcap.InvalidArgumentError, match=r"an image .* give image.detach\(\)"):
        endcap.preprocess(image, size=16)
    image = image.detach()
    with pytest.raises(endcap.InvalidArgumentError) as refused:
        endcap.preprocess(image, size=16)
    advice = str(refused.value).partition("; for example ")[2]
    made = eval(advice.removesuffix(" for values of 0 to 1"))
    assert made.dtype == torch.uint8
    result = endcap.preprocess(made, size=16, dtype="uint8", fit="stretch")
    assert result.images.shape == (2 if batched else 1, 3, 16, 16)
    assert (result.images == 255).all()
    sent = ImageReader().read(made[0] if batched else made)
    assert endcap.decode(sent).shape == (30, 40, 3)
