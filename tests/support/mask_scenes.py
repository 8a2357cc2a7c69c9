"""Prototypes, coefficients, boxes and geometries for the tests of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from tests.reference.placement import letterbox
from tests.support.forced_implementations import force

Floats = npt.NDArray[np.float32]

RESOLUTIONS = ["prototype", "input", "source"]
PATHS = ["scalar", *_core.simd_targets()]


@dataclass(frozen=True)
class Scene:
    """One image's arguments, as the core takes them."""

    prototypes: Floats
    coefficients: Floats
    boxes: Floats
    input_size: tuple[int, int]
    geometry: Floats | None = None

    def packed(self, resolution: str, path: str) -> npt.NDArray[np.uint8]:
        return self._run(resolution, path, encoded=False)

    def encoded(self, resolution: str, path: str) -> tuple[tuple[int, int], list[bytes]]:
        return self._run(resolution, path, encoded=True)

    def _run(self, resolution: str, path: str, *, encoded: bool) -> Any:
        tensors = (self.prototypes, self.coefficients, self.boxes)
        kind = force(path)
        try:
            return _core.make_masks(
                *tensors, resolution, self.input_size, self.geometry, kind, encoded
            )
        finally:
            force("auto")


def smooth(random: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    """Waves of a few periods, as prototypes are."""
    count, height, width = shape
    x, y = np.linspace(0, 1, width), np.linspace(0, 1, height)
    waves = []
    for _ in range(count):
        across, along, phase = random.uniform(0.5, 4, 3)
        waves.append(np.sin(6 * along * y[:, None] + phase) + np.cos(6 * across * x - phase))
    return np.array(waves, np.float32)


def geometry(scale: tuple[float, float], pad: tuple[float, float], size: tuple[int, int]) -> Floats:
    """scale and pad are x, y; size is height, width."""
    return np.array([*scale, *pad, size[1], size[0], 1, 0], np.float32)


def letterboxed(size: tuple[int, int], input_size: tuple[int, int]) -> Floats:
    """A source of that height and width in the middle of the input."""
    place = letterbox(*size, *input_size, upscale=True, pad_align="center")
    return place.geometry(*size)


def random_boxes(random: np.random.Generator, count: int, input_size: tuple[int, int]) -> Floats:
    """xyxy within the input and a little beyond."""
    height, width = input_size
    corners = random.uniform(-0.1, 0.9, (count, 2)) * (width, height)
    sides = random.uniform(0.02, 0.8, (count, 2)) * (width, height)
    return np.hstack([corners, corners + sides]).astype(np.float32)


def random_scene(
    seed: int,
    *,
    shape: tuple[int, int, int] = (8, 24, 40),
    count: int = 12,
    stride: int = 4,
    source: tuple[int, int] | None = None,
) -> Scene:
    random = np.random.default_rng(seed)
    input_size = (stride * shape[1], stride * shape[2])
    return Scene(
        smooth(random, shape),
        random.normal(size=(count, shape[0])).astype(np.float32),
        random_boxes(random, count, input_size),
        input_size,
        None if source is None else letterboxed(source, input_size),
    )
