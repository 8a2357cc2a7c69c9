"""What is measured on: pictures and heads from seeds."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

BATCH = 64
HEIGHT, WIDTH = 1080, 1920
# Besides it, as 1920 x 1080 is three times the tensor's size, so that no weight is a fraction.
OTHER_SIZES = ((720, 1280), (719, 1279))  # height, width
SIZE = 640
_DIFFERENT = 8
ANCHORS = 8400
NUM_CLASSES = 80


def _picture(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Shading, edges and grain, uint8 [height, width, 3]."""
    random = np.random.default_rng(seed)
    small = random.uniform(0, 255, (18, 32, 3)).astype(np.uint8)
    smooth = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    picture = np.asarray(smooth).astype(np.float32)
    for _ in range(12):
        y, x = int(random.integers(0, height - 200)), int(random.integers(0, width - 300))
        picture[y : y + 200, x : x + 300] = random.uniform(0, 255, 3)
    picture += random.normal(0, 4, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


@lru_cache(maxsize=1)
def pictures(height: int = HEIGHT, width: int = WIDTH) -> list[npt.NDArray[np.uint8]]:
    """BATCH pictures, some of them the same."""
    different = [_picture(seed, height, width) for seed in range(_DIFFERENT)]
    return [different[number % _DIFFERENT] for number in range(BATCH)]


@lru_cache(maxsize=1)
def files() -> list[bytes]:
    """The pictures as baseline JPEG files, 4:2:0, quality 85."""

    def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=85, subsampling="4:2:0")
        return out.getvalue()

    different = [encode(picture) for picture in pictures()[:_DIFFERENT]]
    return [different[number % _DIFFERENT] for number in range(BATCH)]


@lru_cache(maxsize=1)
def heads() -> npt.NDArray[np.float32]:
    """float32 [BATCH, 4 + NUM_CLASSES, ANCHORS] like a trained detector's: few scores are high.

    In each image 40 objects; about 20 anchors around each see it.
    """
    random = np.random.default_rng(7)
    batch = np.empty((BATCH, 4 + NUM_CLASSES, ANCHORS), np.float32)
    for head in batch:
        head[:2] = random.uniform(0, SIZE, (2, ANCHORS))
        head[2:4] = random.uniform(8, 200, (2, ANCHORS))
        head[4:] = random.uniform(0, 0.02, (NUM_CLASSES, ANCHORS))
        for first in random.choice(ANCHORS - 20, 40, replace=False):
            around = slice(first, first + 20)
            head[:4, around] = head[:4, [first]] + random.normal(0, 3, (4, 20))
            head[4 + random.integers(NUM_CLASSES), around] = random.uniform(0.2, 0.95, 20)
    return batch
