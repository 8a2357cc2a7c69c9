"""A letterbox of DALI's own operators: endcap's placement, written in DALI's arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Letterbox:
    """Where images go, computed for each sample from the header of its file."""

    def __init__(self, encoded: Any, size: int | Sequence[int], *, upscale: bool) -> None:
        """encoded: uint8 [bytes]; size: height and width, or one number for both."""
        from nvidia.dali import fn, math, types

        height, width = (size, size) if isinstance(size, int) else size
        self._size = [int(height), int(width)]
        # In doubles, as endcap computes it: sizes are rounded at their exact halves.
        shape = fn.cast(fn.peek_image_shape(encoded), dtype=types.FLOAT64)
        self._image_h, self._image_w = shape[0], shape[1]
        ratio = math.min(height / self._image_h, width / self._image_w)
        if not upscale:
            ratio = math.min(ratio, 1.0)
        self._resized_h = math.clamp(_round_half_even(self._image_h * ratio), 1.0, float(height))
        self._resized_w = math.clamp(_round_half_even(self._image_w * ratio), 1.0, float(width))
        # An odd pixel of padding goes to the right and to the bottom.
        self._pad_x = math.floor((width - self._resized_w) / 2)
        self._pad_y = math.floor((height - self._resized_h) / 2)

    def resize(self, images: Any) -> Any:
        """Return images that are uint8 HWC in the size that they have in the letterbox."""
        from nvidia.dali import fn, types

        return fn.resize(
            images,
            resize_x=fn.cast(self._resized_w, dtype=types.FLOAT),
            resize_y=fn.cast(self._resized_h, dtype=types.FLOAT),
            # Whole pixels are whole pixels: else a fraction of one more is resized.
            subpixel_scale=False,
            interp_type=types.INTERP_LINEAR,
            antialias=False,
        )

    def pad_and_normalize(
        self,
        resized: Any,
        pad_value: float,
        scale: float,
        mean: list[float],
        std: list[float],
        **of_dali: Any,
    ) -> Any:
        """Return what `resize` gave in the middle of the letterbox, (x * scale - mean) / std.

        In one operator: with the padding in one of its own, images would be written once more.
        """
        from nvidia.dali import fn

        return fn.crop_mirror_normalize(
            resized,
            crop=self._size,
            rounding="truncate",  # as the geometry: an odd pixel of padding goes behind
            out_of_bounds_policy="pad",
            fill_values=[(pad_value * scale - m) / s for m, s in zip(mean, std, strict=True)],
            mean=[value / scale for value in mean],
            std=[value / scale for value in std],
            **of_dali,
        )

    def geometry(self) -> Any:
        """Return float32 [8], as endcap's; orientation is 1."""
        from nvidia.dali import fn, types

        scales = [self._resized_w / self._image_w, self._resized_h / self._image_h]
        pads = [self._pad_x, self._pad_y]
        nothing = self._image_w * 0.0
        known = [*scales, *pads, self._image_w, self._image_h, nothing + 1.0, nothing]
        return fn.cast(fn.stack(*known), dtype=types.FLOAT)


def _round_half_even(number: Any) -> Any:
    """Return numbers of at least 0 rounded, exact halves to the even neighbour."""
    from nvidia.dali import math

    up = math.floor(number + 0.5)
    odd = up - 2 * math.floor(up / 2)
    return up - odd * (up - number == 0.5)
