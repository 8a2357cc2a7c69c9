"""Planes in YUV for tests, and the pixels that the oracle makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from tests.reference import yuv

Pixels = npt.NDArray[np.uint8]

MATRICES = ("bt601", "bt709", "bt2020")
RANGES = ("full", "limited")
# Columns and rows of luma for each sample of chroma.
SAMPLINGS = {"4:4:4": (1, 1), "4:2:2": (2, 1), "4:4:0": (1, 2), "4:2:0": (2, 2)}


@dataclass(frozen=True)
class Planes:
    y: Pixels
    u: Pixels
    v: Pixels

    @property
    def uv(self) -> Pixels:
        """U and V as NV12 has them."""
        return np.stack([self.u, self.v], axis=-1)

    @property
    def nv12(self) -> Pixels:
        """All in one array."""
        return np.concatenate([self.y, self.uv.reshape(-1, self.y.shape[1])])

    def image(self, **options: Any) -> endcap.YuvImage:
        return endcap.planar_yuv(self.y, self.u, self.v, **options)

    def rgb(self, matrix: str = "bt601", range: str = "limited") -> Pixels:
        return yuv.to_rgb(self.y, self.u, self.v, matrix, range)


def noise(height: int, width: int, sampling: str = "4:2:0", seed: int = 1) -> Planes:
    """Every value occurs, those outside the limited range as well."""
    step_x, step_y = SAMPLINGS[sampling]
    random = np.random.default_rng(seed)
    small = (-(-height // step_y), -(-width // step_x))
    y, u, v = (random.integers(0, 256, size, np.uint8) for size in ((height, width), small, small))
    return Planes(y, u, v)
