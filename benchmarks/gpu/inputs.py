"""Images and heads to measure on, made from seeds."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

NUM_CLASSES = 80
_DIFFERENT = 8
_OBJECTS, _AROUND = 40, 20


@dataclass(frozen=True)
class Sizes:
    """Sizes of a measurement.

    Attributes:
        batch: images of a call.
        height: of the source images.
        width: of the source images, at least their height.
        size: side of the tensor.
        anchors: of a head.
    """

    batch: int = 64
    height: int = 1080
    width: int = 1920
    size: int = 640
    anchors: int = 8400


TINY = Sizes(batch=2, height=54, width=96, size=32, anchors=300)


def make_images(sizes: Sizes) -> list[npt.NDArray[np.uint8]]:
    """Return shading, edges and noise, uint8 [height, width, 3]; images may repeat."""
    different = [_make_image(seed, sizes) for seed in range(min(sizes.batch, _DIFFERENT))]
    return [different[number % len(different)] for number in range(sizes.batch)]


def encode_jpeg(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return a baseline JPEG file, 4:2:0, quality 85."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=85, subsampling="4:2:0")
    return out.getvalue()


def make_heads(sizes: Sizes) -> npt.NDArray[np.float32]:
    """Return float32 [batch, 4 + NUM_CLASSES, anchors] like a trained detector's.

    Few scores are high: an image has up to 40 objects, each seen by 20 neighbouring anchors.
    """
    random = np.random.default_rng(7)
    anchors = sizes.anchors
    heads = np.empty((sizes.batch, 4 + NUM_CLASSES, anchors), np.float32)
    objects = min(_OBJECTS, (anchors - _AROUND) // _AROUND)
    for head in heads:
        head[:2] = random.uniform(0, sizes.size, (2, anchors))
        head[2:4] = random.uniform(8, 200, (2, anchors))
        head[4:] = random.uniform(0, 0.02, (NUM_CLASSES, anchors))
        for first in random.choice(anchors - _AROUND, objects, replace=False):
            around = slice(first, first + _AROUND)
            head[:4, around] = head[:4, [first]] + random.normal(0, 3, (4, _AROUND))
            head[4 + random.integers(NUM_CLASSES), around] = random.uniform(0.2, 0.95, _AROUND)
    return heads


def _make_image(seed: int, sizes: Sizes) -> npt.NDArray[np.uint8]:
    random = np.random.default_rng(seed)
    height, width = sizes.height, sizes.width
    small = random.uniform(0, 255, (18, 32, 3)).astype(np.uint8)
    smooth = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(smooth).astype(np.float32)
    box_h, box_w = height * 5 // 27, width * 5 // 32
    for _ in range(12):
        y, x = (int(random.integers(0, side)) for side in (height - box_h, width - box_w))
        pixels[y : y + box_h, x : x + box_w] = random.uniform(0, 255, 3)
    pixels += random.normal(0, 4, pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)
