"""The detector's loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from .assignment import Targets, assign_aligned, assign_central

BOX_GAIN = 7.5
CLASS_GAIN = 0.5


def detection_loss(
    boxes: Tensor, logits: Tensor, cells: Tensor, targets: Targets, *, aligned: bool
) -> Tensor:
    """Return the loss of a batch.

    Args:
        boxes: float32 [N, 4, A] cxcywh in input pixels.
        logits: float32 [N, C, A].
        cells: float32 [A, 3], centre x, centre y and stride of each cell in input pixels.
        targets: the batch's objects.
        aligned: whether cells are assigned by what the network predicts (task alignment), or by
            the objects' places and sizes alone, from which a new network learns sooner.

    Returns:
        A scalar: complete IoU of the assigned boxes and cross-entropy of all scores, both over
        the sum of the assigned target scores.
    """
    predicted = _xyxy(boxes.transpose(1, 2))
    scores = logits.transpose(1, 2)
    with torch.no_grad():
        if aligned:
            owner, weight = assign_aligned(predicted, scores.sigmoid(), cells, targets)
        else:
            owner, weight = assign_central(cells, targets)
        target_ids = targets.class_ids.gather(1, owner)
        wanted = functional.one_hot(target_ids, scores.shape[2]) * weight[..., None]
        total = weight.sum().clamp(min=1.0)
    class_loss = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
    hit = weight > 0
    owned = targets.boxes.gather(1, owner[..., None].expand(-1, -1, 4))
    box_loss = ((1.0 - complete_iou(predicted[hit], owned[hit])) * weight[hit]).sum()
    return (BOX_GAIN * box_loss + CLASS_GAIN * class_loss) / total


def complete_iou(first: Tensor, second: Tensor) -> Tensor:
    """Complete IoU (Zheng et al., 2020) of paired xyxy boxes [K, 4], float32 [K]."""
    size_first, size_second = first[:, 2:] - first[:, :2], second[:, 2:] - second[:, :2]
    low = torch.maximum(first[:, :2], second[:, :2])
    high = torch.minimum(first[:, 2:], second[:, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    iou = shared / (size_first.prod(-1) + size_second.prod(-1) - shared + 1e-6)
    hull = torch.maximum(first[:, 2:], second[:, 2:]) - torch.minimum(first[:, :2], second[:, :2])
    apart = ((first[:, :2] + first[:, 2:] - second[:, :2] - second[:, 2:]) * 0.5).square().sum(-1)
    tilt = torch.atan(size_second[:, 0] / (size_second[:, 1] + 1e-6)) - torch.atan(
        size_first[:, 0] / (size_first[:, 1] + 1e-6)
    )
    shape = (4.0 / math.pi**2) * tilt.square()
    with torch.no_grad():
        share = shape / (1.0 - iou + shape + 1e-6)
    return iou - apart / (hull.square().sum(-1) + 1e-6) - share * shape


def _xyxy(cxcywh: Tensor) -> Tensor:
    centre, half = cxcywh[..., :2], cxcywh[..., 2:] * 0.5
    return torch.cat([centre - half, centre + half], -1)
