"""A small anchor-free detector: a strided stem, a pyramid of three levels, one shared head.

The output has the form of a YOLOv8 head, float32 [N, 4 + C, A]: rows 0 to 3 are cx, cy, width and
height in input pixels, the others class scores after the sigmoid.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

STRIDES = (8, 16, 32)
# A distance to a box side is the exponential of at most this, in strides.
MAX_LOG_DISTANCE = 5.0


class ConvNormAct(nn.Sequential):
    """Convolution, batch norm, ReLU."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int = 3, stride: int = 1):
        super().__init__(
            nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
        )


class Residual(nn.Module):
    """A bottleneck of two 3x3 convolutions beside the identity."""

    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.body = nn.Sequential(ConvNormAct(channels, inner), ConvNormAct(inner, channels))

    def forward(self, features: Tensor) -> Tensor:
        """Features of the same shape."""
        return cast(Tensor, features + self.body(features))


class Detector(nn.Module):
    """Detects `num_classes` kinds of object in float32 [N, 3, H, W] RGB images in 0..1.

    H and W are multiples of 32. A, the number of cells, is H*W/64 + H*W/256 + H*W/1024.
    """

    def __init__(self, num_classes: int):
        super().__init__()
        self.num_classes = num_classes
        self.to_stride_8 = nn.Sequential(
            ConvNormAct(3, 12, stride=2),
            ConvNormAct(12, 24, stride=2),
            ConvNormAct(24, 32, stride=2),
            Residual(32, 16),
        )
        self.to_stride_16 = nn.Sequential(
            ConvNormAct(32, 48, stride=2), Residual(48, 24), Residual(48, 24)
        )
        self.to_stride_32 = nn.Sequential(
            ConvNormAct(48, 72, stride=2), Residual(72, 24), Residual(72, 24)
        )
        self.lateral = nn.ModuleList([nn.Conv2d(width, 32, 1) for width in (32, 48, 72)])
        self.smooth = nn.ModuleList([ConvNormAct(32, 32) for _ in STRIDES])
        self.box_branch = ConvNormAct(32, 32)
        self.class_branch = ConvNormAct(32, 32)
        self.box_out = nn.Conv2d(32, 4, 1)
        self.class_out = nn.Conv2d(32, num_classes, 1)
        # A score of 1 in 100 at the start keeps the many empty cells from swamping the loss.
        nn.init.constant_(cast(Tensor, self.class_out.bias), -4.6)
        nn.init.constant_(cast(Tensor, self.box_out.bias), 0.7)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes float32 [N, 4, A], cxcywh in input pixels, and class logits [N, C, A]."""
        boxes, logits = [], []
        for stride, level in zip(STRIDES, self._pyramid(images), strict=True):
            reach = self.box_out(self.box_branch(level)).float()
            reach = reach.clamp(max=MAX_LOG_DISTANCE).exp() * stride
            boxes.append(_boxes_around_cells(reach, stride).flatten(2))
            logits.append(self.class_out(self.class_branch(level)).float().flatten(2))
        return torch.cat(boxes, 2), torch.cat(logits, 2)

    def _pyramid(self, images: Tensor) -> list[Tensor]:
        fine = self.to_stride_8(images)
        middle = self.to_stride_16(fine)
        coarse = self.to_stride_32(middle)
        out = [self.lateral[2](coarse)]
        for lateral, features in ((self.lateral[1], middle), (self.lateral[0], fine)):
            out.insert(0, lateral(features) + functional.interpolate(out[0], scale_factor=2.0))
        return [smooth(level) for smooth, level in zip(self.smooth, out, strict=True)]


class DetectorWithHead(nn.Module):
    """The detector with its two outputs joined to one `head`, float32 [N, 4 + C, A]."""

    def __init__(self, detector: Detector):
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor) -> Tensor:
        """Return the head of float32 [N, 3, H, W] images."""
        boxes, logits = self.detector(images)
        return torch.cat([boxes, logits.sigmoid()], 1)


def cell_grid(height: int, width: int) -> Tensor:
    """Centre x, centre y and stride of the cells of all levels in pixels, float32 [A, 3]."""
    levels = []
    for stride in STRIDES:
        y, x = torch.meshgrid(
            _centres(height // stride, stride), _centres(width // stride, stride), indexing="ij"
        )
        x, y = x.flatten(), y.flatten()
        levels.append(torch.stack([x, y, torch.full_like(x, stride)], 1))
    return torch.cat(levels)


def _centres(cells: int, stride: int) -> Tensor:
    return (torch.arange(cells, dtype=torch.float32) + 0.5) * stride


def _boxes_around_cells(reach: Tensor, stride: int) -> Tensor:
    """Turn distances to left, top, right, bottom [N, 4, h, w] in pixels into cxcywh."""
    # Plain integers, so that an exported graph holds these centres as constants.
    rows, columns = int(reach.shape[2]), int(reach.shape[3])
    left, top, right, bottom = (reach[:, side : side + 1] for side in range(4))
    centre_x = _centres(columns, stride).view(1, 1, 1, columns) + (right - left) * 0.5
    centre_y = _centres(rows, stride).view(1, 1, rows, 1) + (bottom - top) * 0.5
    return torch.cat([centre_x, centre_y, left + right, top + bottom], 1)
