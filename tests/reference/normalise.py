"""From pixel values to the numbers of a tensor: y = (x * scale - mean) / std."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def normalise(
    pixels: npt.NDArray[np.generic],
    *,
    scale: float,
    mean: Sequence[float],
    std: Sequence[float],
    dtype: str,
) -> npt.NDArray[np.generic]:
    """[H, W, C] of pixel values -> the same shape in `dtype`, computed in double.

    float32 is rounded once; float16 goes by way of float32; integers round half to even and
    saturate.
    """
    values = (pixels.astype(np.float64) * scale - np.asarray(mean)) / np.asarray(std)
    if dtype in ("uint8", "int8"):
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    else:
        values = values.astype(np.float32)
    tensor: npt.NDArray[np.generic] = values.astype(dtype)
    return tensor
