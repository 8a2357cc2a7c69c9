"""A training pipeline of OpenCV and Pillow with switches, each of which makes it differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from tests.support import jpegs

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]

SIZE = (160, 192)  # height, width
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_images(folder: Path) -> list[Path]:
    """Landscape, portrait, turned by EXIF, smaller than the tensor, and with odd sides."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [(300, 420, None), (411, 260, None), (360, 500, 6), (90, 120, None), (233, 377, None)]
    paths = []
    for seed, (height, width, orientation) in enumerate(kinds):
        path = folder / f"{height}x{width}.jpg"
        picture = jpegs.photo(height, width, seed=seed)
        path.write_bytes(jpegs.encode(picture, orientation=orientation))
        paths.append(path)
    return paths


@dataclass(frozen=True, kw_only=True)
class Training:
    """What endcap's preset `ultralytics` follows at SIZE, but for what is set."""

    size: tuple[int, int] = SIZE
    exif: bool = True
    bgr: bool = False
    fit: str = "letterbox"
    sides: str = "nearest"
    upscale: bool = True
    pad_align: str = "center"
    filter: str = "bilinear"
    antialias: bool = False
    quantize: bool = True
    pad_value: int = 114
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,) * 3
    std: tuple[float, ...] = (1.0,) * 3

    def __call__(self, path: Path) -> npt.NDArray[np.float32]:
        pixels = self._read(path)
        height, width = pixels.shape[:2]
        resized = self._resized(height, width)
        content = self._resize(pixels, *resized)
        canvas = np.full((*self.size, 3), float(self.pad_value))
        free = [self.size[0] - resized[0], self.size[1] - resized[1]]
        top, left = (0, 0) if self.pad_align == "top_left" else [each // 2 for each in free]
        canvas[top : top + resized[0], left : left + resized[1]] = content
        if self.bgr:
            canvas = canvas[..., ::-1]
        tensor = (canvas * self.scale - np.array(self.mean)) / np.array(self.std)
        return np.ascontiguousarray(tensor.transpose(2, 0, 1), np.float32)

    def _read(self, path: Path) -> Pixels:
        with Image.open(path) as image:
            turn = image.getexif().get(jpegs.ORIENTATION_TAG)
            stored = np.asarray(image.convert("RGB"))
        if not self.exif or turn is None:
            return stored
        picture = Image.fromarray(stored)
        picture.getexif()[jpegs.ORIENTATION_TAG] = turn
        return np.asarray(ImageOps.exif_transpose(picture))

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if self.fit == "stretch":
            return self.size
        ratio = min(self.size[0] / height, self.size[1] / width)
        ratio = ratio if self.upscale else min(ratio, 1.0)
        whole = {"nearest": round, "truncate": int}[self.sides]
        # A side that fills the tensor is whole but for the last bit.
        return whole(height * ratio + 1e-9), whole(width * ratio + 1e-9)

    def _resize(self, pixels: Pixels, height: int, width: int) -> Floats:
        if self.antialias:
            return _pillow(pixels, height, width, as_floats=not self.quantize)
        flags = {
            "bilinear": cv2.INTER_LINEAR,
            "bicubic": cv2.INTER_CUBIC,
            "area": cv2.INTER_AREA,
            "nearest": cv2.INTER_NEAREST_EXACT,
        }
        source: Any = pixels if self.quantize else pixels.astype(np.float32)
        resized = cv2.resize(source, (width, height), interpolation=flags[self.filter])
        return resized.astype(np.float64)


def _pillow(pixels: Pixels, height: int, width: int, *, as_floats: bool) -> Floats:
    bilinear = Image.Resampling.BILINEAR
    if not as_floats:
        narrow = Image.fromarray(pixels).resize((width, len(pixels)), bilinear)
        return np.asarray(narrow.resize((width, height), bilinear)).astype(np.float64)
    planes = [
        np.asarray(
            Image.fromarray(pixels[..., c].astype(np.float32)).resize((width, height), bilinear)
        )
        for c in range(3)
    ]
    return np.stack(planes, axis=-1).astype(np.float64)


def crop(path: Path, *, size: int, shorter: int) -> npt.NDArray[np.float32]:
    """The middle of an image whose short side was made `shorter`, as torchvision's transforms."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[:2]
    short = min(height, width)
    resized = shorter * height // short, shorter * width // short
    content = _pillow(pixels, *resized, as_floats=False)
    top, left = (round((side - size) / 2) for side in resized)
    cut = content[top : top + size, left : left + size]
    return np.ascontiguousarray(cut.transpose(2, 0, 1), np.float32) / 255


@dataclass(frozen=True)
class Fault:
    """A change of the pipeline, the part of it that it changes, and the causes to be named."""

    part: str
    changes: Mapping[str, Any]
    causes: frozenset[str]

    def on(self, training: Training) -> Training:
        return replace(training, **self.changes)


def _fault(part: str, *causes: str, **changes: Any) -> Fault:
    return Fault(part, changes, frozenset(causes))


FAULTS: dict[str, Fault] = {
    "BGR": _fault("color", "color", bgr=True),
    "EXIF ignored": _fault("exif", "exif", exif=False),
    "antialias": _fault("resize", "antialias", antialias=True),
    "bicubic": _fault("resize", "interpolation", filter="bicubic"),
    "area": _fault("resize", "interpolation", filter="area"),
    "nearest": _fault("resize", "interpolation", filter="nearest"),
    "no rounding": _fault("rounding", "quantize", quantize=False),
    "stretched": _fault("place", "fit", fit="stretch"),
    "top left": _fault("place", "pad_align", pad_align="top_left"),
    "not enlarged": _fault("place", "upscale", upscale=False),
    "black padding": _fault("pad", "pad_value", pad_value=0),
    "not divided by 255": _fault("values", "normalization", scale=1.0),
    "ImageNet's statistics": _fault("values", "normalization", mean=IMAGENET[0], std=IMAGENET[1]),
    "-1 to 1": _fault("values", "normalization", mean=(0.5,) * 3, std=(0.5,) * 3),
    "sides swapped": _fault("size", "size", size=SIZE[::-1]),
}
# The second of these cannot be seen with the first.
HIDDEN = {
    ("stretched", "black padding"),
    ("nearest", "no rounding"),
}


def pairs() -> list[tuple[str, str]]:
    """All pairs of faults of different parts that can both be seen."""
    names = list(FAULTS)
    return [
        (one, other)
        for position, one in enumerate(names)
        for other in names[position + 1 :]
        if FAULTS[one].part != FAULTS[other].part and not {(one, other), (other, one)} & HIDDEN
    ]
