"""Images for the search for causes, and what none of the images shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from endcap.tools.parity.imitation import ImageKind, Imitator
from endcap.tools.parity.recipe import recipe_of
from endcap.tools.parity.search import Sample

# What the search for causes uses, as each image and each pixel costs time and memory: the smallest
# image of each kind, and others within so many pixels in all.
_SEARCHED_IMAGES, _SEARCHED_PIXELS = 6, 30_000_000
_NO_SCALE = 1e-6


def choose_samples(
    images: Sequence[tuple[Path, NDArray[np.float32]]], own: Mapping[str, str]
) -> tuple[list[Sample], list[str]]:
    """Return the images for the search, those first that show most, and what none shows.

    Args:
        images: Files with the training pipeline's tensors of them.
        own: Endcap's parameters of preprocess, all of them.
    """
    everything = [(Imitator(path), tensor) for path, tensor in images]
    kinds = [imitator.kind for imitator, _ in everything]
    left_out = dict(_left_out(kinds, own))
    plain = [each for each in everything if each[0].kind not in left_out]
    # Where there is nothing else, they are what there is.
    shown = [imitator for imitator, _ in plain or everything]
    tensors = [tensor for _, tensor in plain or everything]
    sizes = [imitator.size(exif="apply") for imitator in shown]
    size = tensors[0].shape[:2]
    pixels = [height * width for height, width in sizes]
    seen: set[tuple[bool, bool, bool]] = set()
    first: list[int] = []
    rest: list[int] = []
    for index in sorted(range(len(shown)), key=pixels.__getitem__):
        height, width = sizes[index]
        kind = (shown[index].is_turned, height < size[0] and width < size[1], height > width)
        (rest if kind in seen else first).append(index)
        seen.add(kind)
    chosen = _within(first, rest, pixels)
    notes = [*dict.fromkeys(left_out.values()), *_not_shown(shown, kinds, sizes, size, own)]
    return [Sample(shown[index], tensors[index]) for index in chosen], notes


def _within(first: Sequence[int], rest: Sequence[int], pixels: Sequence[int]) -> list[int]:
    """Return the images of `first`, and of `rest` as many as are not too many or too large."""
    chosen = list(first[:_SEARCHED_IMAGES])
    left = _SEARCHED_PIXELS - sum(pixels[index] for index in chosen)
    for index in rest[: _SEARCHED_IMAGES - len(chosen)]:
        left -= pixels[index]
        if left < 0:
            break
        chosen.append(index)
    return chosen


def _left_out(
    kinds: Sequence[ImageKind], own: Mapping[str, str]
) -> Iterator[tuple[ImageKind, str]]:
    for kind in kinds:
        if kind.mode == "CMYK":
            yield (
                kind,
                "CMYK images are converted as Pillow does; no cause was looked for in these",
            )
        elif kind.has_alpha and own["alpha"] == "white":
            yield (
                kind,
                "images with transparent pixels differ, for `alpha: white` lays them on white, and "
                'Pillow\'s convert("RGB") and OpenCV show the color below; no cause was looked for '
                "in these",
            )


def _not_shown(
    shown: Sequence[Imitator],
    kinds: Sequence[ImageKind],
    sizes: Sequence[tuple[int, int]],
    size: tuple[int, ...],
    own: Mapping[str, str],
) -> Iterator[str]:
    """Yield what the images do not show."""
    if not any(each.is_turned for each in shown):
        yield "no image has an EXIF orientation, so that its handling was not compared"
    if not any(kind.is_jpeg for kind in kinds):
        yield "no image is a JPEG, so that decoders were not compared"
    if all(kind.mode in ("L", "1", "I;16", "LA") for kind in kinds):
        yield "all images are gray, so that the order of the channels was not compared"
    if own["fit"] == "letterbox" and not any(
        height < size[0] and width < size[1] for height, width in sizes
    ):
        yield "no image is smaller than the tensor, so that enlarging was not compared"
    if all(
        abs(float(geometry[0]) - 1.0) < _NO_SCALE and abs(float(geometry[1]) - 1.0) < _NO_SCALE
        for geometry in (each.geometry(recipe_of(own, (size[0], size[1]))) for each in shown)
    ):
        yield "no image is resized, so that interpolation was not compared"
    if len(set(sizes)) == 1:
        yield "all images have one size, so that other aspect ratios were not compared"
