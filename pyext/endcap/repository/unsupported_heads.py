"""Heads that postprocess does not read, so that `endcap init` refuses them by name.

All outputs of such a network are of one form: maps of the image, keypoints as two distributions
over columns and rows (SimCC), or faces on several levels as SCRFD and RetinaFace give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from endcap.repository.head_evidence import Head, Hints
from endcap.repository.network_tensors import NetworkOutput

_MAX_MAP_STRIDE = 8  # of a coarser map a detector's boxes may be decoded
_BOX_CHANNELS = (2, 4)  # of a map with sizes, offsets or boxes, next to one with scores
_MAX_KEYPOINTS = 300
# Columns of one level, of score, box and five landmarks; or, of two anchors in each cell, maps.
_FACE_ROWS = ([1, 4], [1, 4, 10])
_FACE_MAPS = ([2, 4, 10], [4, 8, 20])


def propose_unsupported(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    """Yield a head whose family is none of postprocess."""
    listed = ", ".join(f"{each.name} {list(each.dims)}" for each in outputs)
    if _are_faces(outputs):
        yield _head("faces", f"{listed}: scores, boxes and landmarks of several levels, as SCRFD's")
    elif _are_simcc(outputs, hints.size):
        yield _head("simcc", f"{listed}: for each keypoint its column and its row")
    elif (maps := [_read_map(each, len(outputs), hints.size) for each in outputs]) and all(maps):
        yield _head("maps", f"{listed}: {maps[0]}")


def _head(family: str, reason: str) -> Head:
    return Head(family, {}, None, reason, is_sure=True)


def _are_faces(outputs: Sequence[NetworkOutput]) -> bool:
    """Return whether every level, rows or a map of another size, has all parts of a face."""
    levels: dict[tuple[int, ...], list[int]] = {}
    ranks = {len(output.dims) for output in outputs}
    parts = {2: _FACE_ROWS, 3: _FACE_MAPS}.get(min(ranks), ()) if len(ranks) == 1 else ()
    for output in outputs if parts else ():
        dims = output.dims if len(output.dims) == 2 else output.dims[::-1]
        levels.setdefault(dims[:-1], []).append(dims[-1])
    return len(levels) > 1 and all(sorted(columns) in parts for columns in levels.values())


def _are_simcc(outputs: Sequence[NetworkOutput], size: tuple[int, int]) -> bool:
    """Return whether outputs [K, W * r] and [K, H * r] split each pixel into as many bins."""
    if len(outputs) != 2 or any(len(each.dims) != 2 or not each.is_float for each in outputs):
        return False
    (keypoints, first), (same, second) = (each.dims for each in outputs)
    bins = {first / side for side in size if first * sum(size) == side * (first + second)}
    return 1 < keypoints == same <= _MAX_KEYPOINTS and any(each >= 1 for each in bins)


def _read_map(output: NetworkOutput, count: int, size: tuple[int, int]) -> str:
    """Return what one of `count` outputs is if it has a number for each pixel or cell, else ""."""
    dims = output.dims if len(output.dims) == 3 else (1, *output.dims)
    if dims[:2] == size:
        dims = (dims[2], *size)
    channels, sides = dims[0], dims[1:]
    if len(sides) != 2 or min(sides) < 2:
        return ""
    stride = -(-size[0] // sides[0])
    fits = 1 <= stride <= _MAX_MAP_STRIDE and sides == tuple(-(-side // stride) for side in size)
    if not fits or (len(output.dims) == 2 and stride > 1):
        return ""
    if not output.is_float:
        return "the class of each pixel, as semantic segmentation gives it" if channels == 1 else ""
    if channels == 1:
        return "a number for each pixel, as of depth or one class"
    if stride == 1:
        return "a score of each class for each pixel, as semantic segmentation gives them"
    if count > 1 and channels in _BOX_CHANNELS:
        return ""
    return "a map for each class or keypoint, as semantic segmentation and heatmaps of poses are"
