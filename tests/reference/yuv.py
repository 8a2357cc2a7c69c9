"""YUV to RGB by definition: BT.601, BT.709 and BT.2020, chroma by libjpeg's triangle filter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]

# Kr and Kb: BT.601-7 2.5.1, BT.709-6 3.2, BT.2020-2 table 4.
WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
# What libjpeg writes for full-range BT.601: R of Cr, G of Cb, G of Cr, B of Cb.
LIBJPEG = (1.402, -0.34414, -0.71414, 1.772)


def factors(matrix: str, scale: str) -> tuple[float, float, float, float]:
    """Of chroma from -128 to 127, for R (Cr), G (Cb), G (Cr) and B (Cb)."""
    if (matrix, scale) == ("bt601", "full"):
        return LIBJPEG
    kr, kb = WEIGHTS[matrix]
    steps = 255 / 224 if scale == "limited" else 1.0
    red, blue = 2 * (1 - kr) * steps, 2 * (1 - kb) * steps
    return red, -blue * kb / (1 - kr - kb), -red * kr / (1 - kr - kb), blue


def fixed(factor: float) -> int:
    """With 16 fractional bits, halves away from zero."""
    return int(np.sign(factor) * np.floor(abs(factor) * 65536 + 0.5))


def luma_sums(y: npt.ArrayLike, scale: str) -> Samples:
    """Luma at full range, 16 fractional bits."""
    samples = np.asarray(y).astype(np.int64)
    return samples * 65536 if scale == "full" else (samples - 16) * fixed(255 / 219)


def rounded(sums: Samples) -> Pixels:
    return np.clip(np.floor_divide(sums + 32768, 65536), 0, 255).astype(np.uint8)


def neighbours(size: int, samples: int) -> tuple[Samples, Samples]:
    """For each pixel of a doubled axis the sample that covers it and the next on its side."""
    pixels = np.arange(size)
    near = pixels // 2
    far = np.clip(near + np.where(pixels % 2 == 0, -1, 1), 0, samples - 1)
    return near, far


def upsampled(plane: Pixels, height: int, width: int, step_x: int, step_y: int) -> Samples:
    """A chroma plane at full size."""
    samples = plane.astype(np.int64)
    odd_row = (np.arange(height) % 2)[:, None]
    odd_column = (np.arange(width) % 2)[None, :]
    if step_y == 2:
        near, far = neighbours(height, len(samples))
        samples = 3 * samples[near] + samples[far]
        if step_x == 1:
            return (samples + np.where(odd_row == 1, 2, 1)) // 4
    if step_x == 1:
        return samples
    near, far = neighbours(width, samples.shape[1])
    sums = 3 * samples[:, near] + samples[:, far]
    if step_y == 2:
        return (sums + np.where(odd_column == 1, 7, 8)) // 16
    return (sums + np.where(odd_column == 1, 2, 1)) // 4


def to_rgb(
    y: Pixels, u: Pixels, v: Pixels, matrix: str, scale: str, steps: tuple[int, int] | None = None
) -> Pixels:
    """[H, W, 3] of Y [H, W] and of U and V with all or half the rows and columns.

    steps: pixels for each sample of chroma, of a row and of a column, where sizes do not tell.
    """
    height, width = y.shape
    if steps is None:
        steps = (1 if u.shape[1] == width else 2, 1 if len(u) == height else 2)
    step_x, step_y = steps
    cb = upsampled(u, height, width, step_x, step_y) - 128
    cr = upsampled(v, height, width, step_x, step_y) - 128
    red, green_cb, green_cr, blue = (fixed(factor) for factor in factors(matrix, scale))
    luma = luma_sums(y, scale)
    channels = (luma + red * cr, luma + green_cb * cb + green_cr * cr, luma + blue * cb)
    return np.stack([rounded(channel) for channel in channels], axis=-1)


def to_gray(y: Pixels, scale: str) -> Pixels:
    """[H, W]: luma at full range."""
    return rounded(luma_sums(y, scale))
