"""What any pipeline answers for one image, and whether two pipelines answer the same."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from benchmarks.server.verify import BOX_PIXELS, SCORE, VerificationError


@dataclass(frozen=True)
class Answer:
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


def compare(answer: Answer, first: Answer, *, exact: bool) -> str:
    """Hold an answer against that of the first pipeline; a few words on success.

    Raises VerificationError, also where nothing was detected: that would prove nothing.
    """
    if len(answer) == 0 or len(answer) != len(first):
        raise VerificationError(f"{len(answer)} detections, not {len(first)}")
    if exact:
        for name in (each.name for each in fields(Answer)):
            if getattr(answer, name) != getattr(first, name):
                raise VerificationError(f"{name} are not equal{_by_how_much(answer, first, name)}")
        return f"equal, {len(answer)} detections"
    if answer.classes != first.classes:
        raise VerificationError("classes are not equal")
    for name, tolerance in (("boxes", BOX_PIXELS), ("scores", SCORE)):
        if (difference := _difference(answer, first, name)) > tolerance:
            raise VerificationError(f"{name} differ by {difference:.3g}")
    pixels = _difference(answer, first, "boxes")
    return f"same {len(answer)} detections, boxes within {pixels:.2g} pixels"


def _by_how_much(answer: Answer, first: Answer, name: str) -> str:
    return (
        "" if name == "class_labels" else f": they differ by {_difference(answer, first, name):.3g}"
    )


def _difference(answer: Answer, first: Answer, name: str) -> float:
    pair = (np.array(getattr(each, name), np.float64) for each in (answer, first))
    return float(np.abs(np.subtract(*pair)).max())
