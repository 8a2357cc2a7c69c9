"""Lays masks over a picture as translucent colour."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from endcap.drawing.contrast import Color

_OPACITY = 115  # of 255: the picture shows through, and neighbouring classes are told apart


def fill_mask(picture: Image.Image, mask: npt.NDArray[np.bool_], color: Color) -> None:
    """Tint an RGB picture where a mask is true.

    Args:
        mask: Bool [H, W], scaled to the picture where its size is another. Only the part that holds
            the mask is worked on.
    """
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(columns):
        return
    left, right = int(columns[0]), int(columns[-1]) + 1
    rows = np.flatnonzero(mask[:, left:right].any(axis=1))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    inside = mask[top:bottom, left:right].astype(np.uint8) * np.uint8(_OPACITY)
    alpha = Image.fromarray(inside)
    across, down = picture.width / mask.shape[1], picture.height / mask.shape[0]
    x, y = round(left * across), round(top * down)
    size = (max(1, round(right * across) - x), max(1, round(bottom * down) - y))
    if alpha.size != size:
        alpha = alpha.resize(size, Image.Resampling.BILINEAR)
    picture.paste(color, (x, y), alpha)
