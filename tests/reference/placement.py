"""Where a picture of image_h x image_w lies in a tensor of height x width: the three fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Placement:
    """Resize to new_h x new_w, then put the upper left corner at (pad_y, pad_x).

    Negative pads crop.
    """

    new_h: int
    new_w: int
    pad_y: int
    pad_x: int

    def geometry(
        self, image_h: int, image_w: int, *, orientation: int = 1, source_index: int = 0
    ) -> npt.NDArray[np.float32]:
        """The row of the `geometry` tensor."""
        return np.array(
            [
                self.new_w / image_w,
                self.new_h / image_h,
                self.pad_x,
                self.pad_y,
                image_w,
                image_h,
                orientation,
                source_index,
            ],
            dtype=np.float32,
        )


def letterbox(
    image_h: int, image_w: int, height: int, width: int, *, upscale: bool, pad_align: str
) -> Placement:
    ratio = min(height / image_h, width / image_w)
    if not upscale:
        ratio = min(ratio, 1.0)
    new_h = max(1, round(image_h * ratio))
    new_w = max(1, round(image_w * ratio))
    if pad_align == "top_left":
        return Placement(new_h, new_w, 0, 0)
    return Placement(
        new_h, new_w, round((height - new_h) / 2 - 0.1), round((width - new_w) / 2 - 0.1)
    )


def stretch(height: int, width: int) -> Placement:
    return Placement(height, width, 0, 0)


def center_crop(
    image_h: int, image_w: int, height: int, width: int, *, resize_shorter: int
) -> Placement:
    if image_h < image_w:
        new_h, new_w = resize_shorter, int(resize_shorter * image_w / image_h)
    else:
        new_h, new_w = int(resize_shorter * image_h / image_w), resize_shorter
    top = round((new_h - height) / 2.0)
    left = round((new_w - width) / 2.0)
    return Placement(new_h, new_w, -top, -left)


def on_canvas(
    resized: npt.NDArray[np.generic],
    place: Placement,
    height: int,
    width: int,
    *,
    pad_value: int = 114,
) -> npt.NDArray[np.generic]:
    """Puts a resized picture [new_h, new_w, C] where `place` says, on a canvas of pad_value."""
    assert resized.shape[:2] == (place.new_h, place.new_w)
    canvas = np.full((height, width, resized.shape[2]), pad_value, resized.dtype)
    rows = [y for y in range(height) if 0 <= y - place.pad_y < place.new_h]
    columns = [x for x in range(width) if 0 <= x - place.pad_x < place.new_w]
    from_rows = [y - place.pad_y for y in rows]
    from_columns = [x - place.pad_x for x in columns]
    canvas[np.ix_(rows, columns)] = resized[np.ix_(from_rows, from_columns)]
    return canvas
