"""Response of a pipeline for one image, and the comparison of two pipelines' responses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from benchmarks.server.verify import BOX_PIXELS, SCORE, VerificationError


@dataclass(frozen=True)
class Response:
    """The detections of one image, best first, as lists that go into JSON.

    Attributes:
        boxes: X1, y1, x2, y2 in pixels of the source image.
        class_labels, class_scores: Of the classifier, for the task that has one.
    """

    boxes: list[list[float]]
    scores: list[float]
    classes: list[int]
    class_labels: list[str] = field(default_factory=list)
    class_scores: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.scores)


def compare(response: Response, first: Response, *, exact: bool) -> str:
    """Hold a response against that of the first pipeline; a few words on success.

    Raises VerificationError, also where nothing was detected: that would prove nothing.
    """
    if len(response) == 0 or len(response) != len(first):
        raise VerificationError(f"{len(response)} detections, not {len(first)}")
    if exact:
        for name in (each.name for each in fields(Response)):
            if getattr(response, name) != getattr(first, name):
                raise VerificationError(
                    f"{name} are not equal{_by_how_much(response, first, name)}"
                )
        return f"equal, {len(response)} detections"
    if response.classes != first.classes:
        raise VerificationError("classes are not equal")
    for name, tolerance in (("boxes", BOX_PIXELS), ("scores", SCORE)):
        if (difference := _difference(response, first, name)) > tolerance:
            raise VerificationError(f"{name} differ by {difference:.3g}")
    pixels = _difference(response, first, "boxes")
    return f"same {len(response)} detections, boxes within {pixels:.2g} pixels"


def _by_how_much(response: Response, first: Response, name: str) -> str:
    return (
        ""
        if name == "class_labels"
        else f": they differ by {_difference(response, first, name):.3g}"
    )


def _difference(response: Response, first: Response, name: str) -> float:
    pair = (np.array(getattr(each, name), np.float64) for each in (response, first))
    return float(np.abs(np.subtract(*pair)).max())
