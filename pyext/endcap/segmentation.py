"""Semantic segmentation: the class of each pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError
from endcap.masks import encode_rle
from endcap.predictions import ClassArea, class_name

if TYPE_CHECKING:
    import PIL.Image


@dataclass(frozen=True, eq=False, repr=False)
class SegmentationMap:
    """The class of each pixel of an image.

    Attributes:
        class_map: uint8 [H, W], class ids; empty, [0, 0], for an image that failed before.
        labels: Class names by id; None without names. The name of a single class is that of id 1,
            and id 0 is the background.
        ignore_label: The id of pixels that are of no class; None where every id is a class.
    """

    class_map: npt.NDArray[np.uint8]
    labels: Sequence[str] | None = None
    ignore_label: int | None = 255

    def __post_init__(self) -> None:
        if self.class_map.ndim != 2 or self.class_map.dtype != np.uint8:
            raise InvalidArgumentError(
                f"class_map is {self.class_map.dtype} of shape {list(self.class_map.shape)}: give "
                "uint8 [H, W]"
            )

    def __repr__(self) -> str:
        height, width = self.class_map.shape
        areas = (
            f"{class_name(each.class_id, each.label)} {each.fraction:.1%}"
            for each in self.classes()
        )
        return f"<SegmentationMap {height}x{width}: {', '.join(areas) or 'no class'}>"

    def classes(self) -> list[ClassArea]:
        """Return the classes that have pixels, the largest first, without ignore_label."""
        counts = np.bincount(self.class_map.reshape(-1), minlength=256)
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda each: (-counts[each], each))
        return [
            ClassArea(
                each, self._label(each), int(counts[each]), counts[each] / self.class_map.size
            )
            for each in order
            if each != self.ignore_label
        ]

    def _label(self, class_id: int) -> str | None:
        labels = self.labels or ()
        if len(labels) == 1:
            labels = ("background", *labels)
        return labels[class_id] if class_id < len(labels) else None

    def rle(self, class_id: int) -> bytes:
        """Return the pixels of a class as COCO's compressed RLE, see `endcap.masks.encode_rle`."""
        return encode_rle(self.class_map == class_id)

    def to_pil(self) -> PIL.Image.Image:
        """Return a palette picture, mode "P": its pixels are class ids, each in its own colour.

        The colours are those of `endcap infer --draw`; ignore_label is black.
        """
        import PIL.Image

        from endcap.drawing.draw import class_color

        picture = PIL.Image.fromarray(self.class_map)  # copied: `putpalette` changes it
        colors = [
            (0, 0, 0) if each == self.ignore_label else class_color(each) for each in range(256)
        ]
        picture.putpalette([channel for color in colors for channel in color])
        return picture

    def draw(
        self,
        image: Any,
        *,
        labels: Sequence[str] | None = None,
        upright: bool = True,
        within: tuple[int, int] | None = None,
    ) -> PIL.Image.Image:
        """Return a new picture with the colours of the classes and a legend, a Pillow image.

        Args and errors are those of `ImageDetections.draw`; `labels` are for a map without names.
        """
        from endcap.drawing.draw import draw_classes
        from endcap.drawing.pictures import open_for_drawing

        areas = (self if self.labels else replace(self, labels=labels)).classes()
        with open_for_drawing(image) as picture:
            return draw_classes(picture, self.class_map, areas, within=within, upright=upright)

    def to_dict(self) -> dict[str, Any]:
        """Return what `endcap infer --json` prints: size, and each class with its RLE."""
        return {
            "size": [*self.class_map.shape],
            "classes": [
                vars(each) | {"rle": self.rle(each.class_id).decode()} for each in self.classes()
            ],
        }
