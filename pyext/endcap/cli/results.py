"""Results on their way into a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from endcap.client import ImageResult
from endcap.detections import ImageDetections


def above(result: ImageResult, threshold: float) -> ImageResult:
    """Return a result without the detections or classes whose scores are below the threshold."""
    if threshold <= 0 or not result.ok:
        return result
    return dataclasses.replace(
        result,
        detections=result.detections[result.detections.scores >= threshold],
        classes=[each for each in result.classes if each.score >= threshold],
    )


def whole_results(parts: Iterable[ImageResult]) -> Iterator[ImageResult]:
    """Yield one result for each image from the responses of a decoupled model.

    Args:
        parts: In the order of the images; the last one of each image is `final`. An image with a
            failed response is failed.
    """
    so_far: list[ImageResult] = []
    for part in parts:
        so_far.append(part)
        if part.final:
            yield _merge(so_far)
            so_far = []


def _merge(parts: Sequence[ImageResult]) -> ImageResult:
    failed = next((part for part in parts if not part.ok), None)
    if len(parts) == 1 or failed is not None:
        return failed or parts[0]
    return dataclasses.replace(
        parts[-1],
        detections=ImageDetections.from_list(each for part in parts for each in part.detections),
        classes=[each for part in parts for each in part.classes],
    )
