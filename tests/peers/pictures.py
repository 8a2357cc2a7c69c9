"""JPEG files to compare on: photographs that installed packages ship, and what is made of one."""

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support import jpegs

PHOTOGRAPHS = {
    "china": ("sklearn", "datasets/images/china.jpg"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "hubble": ("skimage", "data/hubble_deep_field.jpg"),
    "retina": ("skimage", "data/retina.jpg"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "bus": ("ultralytics", "assets/bus.jpg"),
    "zidane": ("ultralytics", "assets/zidane.jpg"),
}
# Rows and columns of "china", 427 x 640: odd, below every target, tall and wide, sides of a pixel.
CROPS = {
    "odd": (slice(10, 343), slice(20, 537)),
    "small": (slice(100, 190), slice(200, 321)),
    "tall": (slice(0, 427), slice(100, 261)),
    "wide": (slice(100, 227), slice(0, 640)),
    "row": (slice(200, 201), slice(0, 60)),
    "column": (slice(0, 60), slice(200, 201)),
}
ORIENTATIONS = {f"exif_{orientation}": orientation for orientation in range(1, 9)}
COLOR = [*PHOTOGRAPHS, *CROPS, *ORIENTATIONS, "gray"]
# All but the unturned copies, for what is given pixels.
WITHOUT_EXIF = [*PHOTOGRAPHS, *CROPS]


def package_folder(package: str) -> Path:
    """Where a package lies; without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed; its photographs are needed")
    return Path(spec.submodule_search_locations[0])


@cache
def picture(name: str) -> bytes:
    """A file of COLOR, or "cmyk"."""
    if name in PHOTOGRAPHS:
        package, path = PHOTOGRAPHS[name]
        return (package_folder(package) / path).read_bytes()
    china = pixels("china")
    if name in CROPS:
        return jpegs.encode(china[CROPS[name]])
    if name in ORIENTATIONS:
        return jpegs.encode(china[:301, :450], orientation=ORIENTATIONS[name])
    if name == "gray":
        return jpegs.encode(china[..., 1])
    black = np.full((*china.shape[:2], 1), 30, np.uint8)
    return jpegs.encode(np.concatenate([255 - china, black], axis=2))


@cache
def pixels(name: str) -> jpegs.Pixels:
    """RGB as Pillow reads it; EXIF is ignored."""
    return np.asarray(pillow(picture(name)))


def pillow(data: bytes) -> Image.Image:
    """An RGB image as pipelines of PyTorch open it."""
    return Image.open(io.BytesIO(data)).convert("RGB")
