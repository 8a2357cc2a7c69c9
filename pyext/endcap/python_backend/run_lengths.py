"""Masks' run lengths as rows of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def padded_run_lengths(rle: Sequence[Sequence[bytes]], rows: int) -> npt.NDArray[np.object_]:
    """Return the masks of B images as an array of bytes [B, rows], empty where there is no mask."""
    padded = np.full((len(rle), rows), b"", np.object_)
    for row, masks in zip(padded, rle, strict=True):
        row[: len(masks)] = masks
    return padded
