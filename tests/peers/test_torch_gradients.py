"""Tensors of torch: images, and those that require grad, refused but for boxes to suppress."""

from __future__ import annotations

import numpy as np
import pytest

import endcap

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
