"""Assignment of cells to objects in training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

# Cells given to each object, and the exponents of score and IoU in the alignment, as YOLOv8 has.
TOP_CELLS = 10
SCORE_POWER = 0.5
IOU_POWER = 6.0
# An object spans about this many cells of its level; levels overlap by the factors below.
CELLS_PER_OBJECT = 6.0
LEVEL_LOW, LEVEL_HIGH = 0.66, 1.5
# Cells this many strides around an object's centre are its own.
CENTRE_REACH = 1.5


@dataclass(frozen=True)
class Targets:
    """Padded targets: boxes float32 [N, M, 4] xyxy, class_ids int64 [N, M], valid bool [N, M]."""

    boxes: Tensor
    class_ids: Tensor
    valid: Tensor


def assign_aligned(
    predicted: Tensor, scores: Tensor, cells: Tensor, targets: Targets
) -> tuple[Tensor, Tensor]:
    """Give each object the cells that agree best with it (TOOD, Feng et al., 2021).

    Args:
        predicted: float32 [N, A, 4] xyxy.
        scores: float32 [N, A, C] in 0..1.
        cells: float32 [A, 3].
        targets: the batch's objects.

    Returns:
        owner int64 [N, A], the object of each cell (0 where it has none), and weight float32
        [N, A], its target score (0 where it has none).
    """
    iou = pairwise_iou(targets.boxes, predicted)
    class_rows = targets.class_ids[..., None].expand(-1, -1, predicted.shape[1])
    score = scores.transpose(1, 2).gather(1, class_rows)
    near = _inside(cells, targets.boxes) & targets.valid[..., None]
    alignment = score.pow(SCORE_POWER) * iou.pow(IOU_POWER) * near
    best, at = alignment.topk(min(TOP_CELLS, alignment.shape[2]), dim=2)
    chosen = torch.zeros_like(alignment).scatter_(2, at, (best > 0).float()).bool()
    # A cell wanted by several objects goes to the one that it overlaps most.
    owner = torch.where(chosen, iou, -1.0).argmax(1)
    mine = functional.one_hot(owner, iou.shape[1]).transpose(1, 2).bool() & chosen
    alignment = alignment * mine
    peak = alignment.amax(2, keepdim=True).clamp(min=1e-9)
    best_iou = (iou * mine).amax(2, keepdim=True)
    return owner, (alignment / peak * best_iou).amax(1)


def assign_central(cells: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """Give each object the cells around its centre on the level that suits its size.

    Returns:
        As `assign_aligned`, every weight 0 or 1.
    """
    size = (targets.boxes[..., 2:] - targets.boxes[..., :2]).amax(-1)
    middle = (targets.boxes[..., 2:] + targets.boxes[..., :2]) * 0.5
    stride = cells[:, 2]
    finest, coarsest = float(stride.min()), float(stride.max())
    suited = (size / CELLS_PER_OBJECT).clamp(finest, coarsest)
    ratio = suited[..., None] / stride
    on_level = (ratio > LEVEL_LOW) & (ratio < LEVEL_HIGH)
    apart = (middle[:, :, None] - cells[None, None, :, :2]).abs().amax(-1)
    chosen = on_level & (apart < CENTRE_REACH * stride) & _inside(cells, targets.boxes)
    chosen &= targets.valid[..., None]
    # A cell wanted by several objects goes to the smallest.
    owner = torch.where(chosen, size[..., None], torch.inf).argmin(1)
    return owner, chosen.any(1).float()


def _inside(cells: Tensor, boxes: Tensor) -> Tensor:
    """Which cell centres lie inside which box, bool [N, M, A]."""
    after = cells[None, None, :, :2] - boxes[:, :, None, :2]
    before = boxes[:, :, None, 2:] - cells[None, None, :, :2]
    return torch.minimum(after, before).amin(-1) > 0


def pairwise_iou(first: Tensor, second: Tensor) -> Tensor:
    """IoU of xyxy boxes [N, M, 4] and [N, A, 4], float32 [N, M, A]."""
    low = torch.maximum(first[:, :, None, :2], second[:, None, :, :2])
    high = torch.minimum(first[:, :, None, 2:], second[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    area_first = (first[..., 2:] - first[..., :2]).prod(-1)[:, :, None]
    area_second = (second[..., 2:] - second[..., :2]).prod(-1)[:, None, :]
    return shared / (area_first + area_second - shared).clamp(min=1e-6)
