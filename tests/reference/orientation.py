"""What each EXIF orientation asks of a stored picture (Exif 2.3, tag 0x0112)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def oriented(stored: npt.NDArray[np.uint8], orientation: int) -> npt.NDArray[np.uint8]:
    """Turns a stored picture [H, W, ...] the way a viewer shows it."""
    transposed = np.swapaxes(stored, 0, 1)
    views = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: transposed,
        6: transposed[:, ::-1],
        7: transposed[::-1, ::-1],
        8: transposed[::-1],
    }
    return np.ascontiguousarray(views[orientation])
