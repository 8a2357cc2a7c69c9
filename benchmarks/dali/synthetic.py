"""Pictures that photographs are not: noise, hard edges, smooth ramps, and sides that do not fit."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

# height, width: sides that shrink and grow by whole and by odd factors; none whose letterbox ends
# in half a pixel, which is a kind of difference of its own.
SIZES = ((640, 640), (1280, 960), (999, 1001), (872, 1000), (37, 1000), (311, 203), (9, 7))
HALF_A_PIXEL = (641, 1280)  # at half size 320.5 rows


def noise(height: int, width: int) -> Pixels:
    """Every value at random: what is hardest for a filter."""
    values: Pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
    return values


def edges(height: int, width: int) -> Pixels:
    """A chessboard of fields of three pixels, black and white."""
    y, x = np.mgrid[0:height, 0:width]
    board = ((y // 3 + x // 3) % 2 * 255).astype(np.uint8)
    return np.repeat(board[..., None], 3, axis=2)


def ramp(height: int, width: int) -> Pixels:
    """Colours that grow slowly along either axis."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    across, down = 255 * x / width, 255 * y / height
    colours = [across, down, 255 - (across + down) / 2]
    picture: Pixels = np.rint(np.stack(colours, axis=2)).astype(np.uint8)
    return picture


def pictures() -> dict[str, Pixels]:
    """All of them by name."""
    return {
        f"{make.__name__} {width}x{height}": make(height, width)
        for make in (noise, edges, ramp)
        for height, width in SIZES
    }


def jpegs() -> dict[str, bytes]:
    """The pictures as files, and one of each kind of file that Pillow writes."""
    files = {name: encode(pixels) for name, pixels in pictures().items()}
    picture = ramp(431, 653) // 2 + noise(431, 653) // 2
    for name, subsampling in (("4:4:4", 0), ("4:2:2", 1), ("4:2:0", 2)):
        files[name] = encode(picture, subsampling=subsampling)
    files["progressive"] = encode(picture, progressive=True)
    files["quality 30"] = encode(picture, quality=30)
    files["gray"] = encode(picture[..., 0])
    return files


def cmyk() -> dict[str, bytes]:
    """Files of four inks."""
    inks = [
        np.dstack([make(431, 653), noise(653, 431).transpose(1, 0, 2)[..., :1]])
        for make in (noise, ramp)
    ]
    return {f"CMYK {index}": encode(each, mode="CMYK") for index, each in enumerate(inks)}


def encode(pixels: Pixels, mode: str | None = None, **options: Any) -> bytes:
    """A JPEG of quality 90 unless told otherwise."""
    mode = mode or ("L" if pixels.ndim == 2 else "RGB")
    size = (pixels.shape[1], pixels.shape[0])
    picture = Image.frombytes(mode, size, np.ascontiguousarray(pixels).tobytes())
    file = io.BytesIO()
    picture.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()
