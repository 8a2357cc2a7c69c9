"""Images and heads to measure on, made from seeds."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

BATCH = 64
HEIGHT, WIDTH = 1080, 1920
SIZE = 640
ANCHORS = 8400
NUM_CLASSES = 80
_DIFFERENT = 8
_OBJECTS, _AROUND = 40, 20


@dataclass(frozen=True)
class Sizes:
    """What a benchmark works on.

    Attributes:
        batch: images of a call.
        height, width: of the source images.
        other_sizes: height and width of further source images. 1920 x 1080 is three times the
            tensor's size, so that no weight is a fraction.
        size: side of the tensor.
        anchors: of a head.
        mask_images: images of a call that makes masks.
        mask_detections: at most, of such an image.
        prototype_side: of the masks' prototypes.
        seconds: for which requests are counted.
        concurrencies: requests in flight at a server.
    """

    batch: int = BATCH
    height: int = HEIGHT
    width: int = WIDTH
    other_sizes: tuple[tuple[int, int], ...] = ((720, 1280), (719, 1279))
    size: int = SIZE
    anchors: int = ANCHORS
    mask_images: int = 16
    mask_detections: int = 100
    prototype_side: int = 160
    seconds: float = 2.5
    concurrencies: tuple[int, ...] = (1, 16, 64)


FULL = Sizes()
# For the emulated GPU, and under sanitizers.
TINY = Sizes(
    batch=3,
    height=108,
    width=192,
    other_sizes=((71, 127),),
    size=64,
    anchors=300,
    mask_images=1,
    mask_detections=3,
    prototype_side=16,
    seconds=0.3,
    concurrencies=(1, 2),
)


def picture(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return shading, edges and noise, uint8 [height, width, 3]."""
    random = np.random.default_rng(seed)
    small = random.uniform(0, 255, (18, 32, 3)).astype(np.uint8)
    smooth = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(smooth).astype(np.float32)
    box_h, box_w = height * 5 // 27, width * 5 // 32
    for _ in range(12):
        y, x = (int(random.integers(0, side)) for side in (height - box_h, width - box_w))
        pixels[y : y + box_h, x : x + box_w] = random.uniform(0, 255, 3)
    pixels += random.normal(0, 4, pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


@lru_cache(maxsize=1)
def pictures(
    height: int = HEIGHT, width: int = WIDTH, count: int = BATCH
) -> list[npt.NDArray[np.uint8]]:
    """Return images, some of them the same."""
    different = [picture(seed, height, width) for seed in range(min(count, _DIFFERENT))]
    return [different[number % len(different)] for number in range(count)]


@lru_cache(maxsize=1)
def files(height: int = HEIGHT, width: int = WIDTH, count: int = BATCH) -> list[bytes]:
    """Return the images as baseline JPEG files, 4:2:0, quality 85."""

    def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=85, subsampling="4:2:0")
        return out.getvalue()

    different = [encode(each) for each in pictures(height, width, count)[:_DIFFERENT]]
    return [different[number % len(different)] for number in range(count)]


@lru_cache(maxsize=1)
def heads(count: int = BATCH, anchors: int = ANCHORS) -> npt.NDArray[np.float32]:
    """Return float32 [count, 4 + NUM_CLASSES, anchors] like a trained detector's.

    Few scores are high: an image has up to 40 objects, each seen by 20 neighbouring anchors.
    """
    random = np.random.default_rng(7)
    batch = np.empty((count, 4 + NUM_CLASSES, anchors), np.float32)
    objects = min(_OBJECTS, (anchors - _AROUND) // _AROUND)
    for head in batch:
        head[:2] = random.uniform(0, SIZE, (2, anchors))
        head[2:4] = random.uniform(8, 200, (2, anchors))
        head[4:] = random.uniform(0, 0.02, (NUM_CLASSES, anchors))
        for first in random.choice(anchors - _AROUND, objects, replace=False):
            around = slice(first, first + _AROUND)
            head[:4, around] = head[:4, [first]] + random.normal(0, 3, (4, _AROUND))
            head[4 + random.integers(NUM_CLASSES), around] = random.uniform(0.2, 0.95, _AROUND)
    return batch
