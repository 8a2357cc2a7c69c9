"""Which grids a detector's anchors are of: one cell for each stride x stride pixels of the image.

So the number of anchors follows from the image's size, which tells grid detectors from all others.
"""

from __future__ import annotations

from dataclasses import dataclass

# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes


@dataclass(frozen=True)
class Grids:
    """Which grids have a number of anchors."""

    cells: int
    anchors: int  # in each cell
    strides: tuple[int, ...]

    def __str__(self) -> str:
        """Such as `8400 cells of strides 8, 16, 32`."""
        where = f"{self.cells} cells of strides {', '.join(map(str, self.strides))}"
        return where if self.anchors == 1 else f"{self.anchors} anchors in each of {where}"


def find_grids(count: int, size: tuple[int, int]) -> Grids | None:
    """Return the grids of so many anchors in an image of height and width; None if none has."""
    for strides in _STRIDES:
        cells = sum(-(-size[0] // stride) * -(-size[1] // stride) for stride in strides)
        for anchors in _ANCHORS_PER_CELL:
            if count == cells * anchors:
                return Grids(cells, anchors, strides)
    return None
