"""Whether a peer made the tensor that endcap makes, before anybody times it.

Two bars. A peer with the same arithmetic must give the same 8-bit steps: none off by more than
MOST_STEPS, and EQUAL_SHARE of them equal; code paths of one library differ that much among CPUs. A
peer that resizes or decodes by another definition must show the same picture, by a PSNR of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.preprocess import SIZE

MOST_STEPS = 1
EQUAL_SHARE = 0.999


@dataclass(frozen=True)
class Agreement:
    """How near two tensors are, in 8-bit steps (0 to 255)."""

    largest_step: int
    differing: int
    values: int
    psnr_db: float | None  # None where the tensors are equal
    passed: bool

    @property
    def text(self) -> str:
        """In a few words, for a table."""
        if self.differing == 0:
            return "equal"
        share = 100.0 * self.differing / self.values
        return f"{share:.3g} % differ, at most {self.largest_step}, {self.psnr_db:.1f} dB"


def compare(tensor: Any, reference: Any, psnr_db: float | None) -> Agreement:
    """Hold a tensor [3, SIZE, SIZE] against endcap's; psnr_db is the bar, None the exact one."""
    ours = _steps(reference)
    theirs = _steps(tensor)
    difference = np.abs(theirs - ours)
    differing = int(np.count_nonzero(difference))
    largest = int(difference.max())
    mean_square = float(np.square(difference, dtype=np.float64).mean())
    psnr = None if mean_square == 0 else float(10 * np.log10(255**2 / mean_square))
    if psnr_db is None:
        passed = largest <= MOST_STEPS and differing <= (1 - EQUAL_SHARE) * ours.size
    else:
        passed = psnr is None or psnr >= psnr_db
    return Agreement(largest, differing, ours.size, psnr, passed)


def _steps(tensor: Any) -> Any:
    array = np.asarray(tensor)
    if array.shape != (3, SIZE, SIZE) or array.dtype != np.float32:
        raise ValueError(f"a peer gave {array.dtype} {list(array.shape)}")
    if not np.isfinite(array).all():
        raise ValueError("a peer gave values that are no numbers")
    return np.rint(array * 255).astype(np.int32)
