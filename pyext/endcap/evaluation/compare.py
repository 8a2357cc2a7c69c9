"""Two ways of running a model, side by side, and the limits that a user set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from endcap.evaluation.coco import Accuracy
from endcap.evaluation.predictions import Failure

# Name for people -> field of Accuracy, in the order of the table.
MEASURES = {
    "mAP50": "map50",
    "mAP75": "map75",
    "mAP50-95": "map50_95",
    "mAP50-95 small": "map_small",
    "mAP50-95 medium": "map_medium",
    "mAP50-95 large": "map_large",
    "recall (AR 100)": "recall",
}
_COMPARED = ("mAP50", "mAP50-95")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All that an evaluation found.

    Attributes:
        served: The server's accuracy; other: that of the reference or of a user's predictions, or
            None.
        lowest_score: Of all served detections.
        problems: Limits that were broken and what could not be saved, as messages.
    """

    served: Accuracy
    other: Accuracy | None
    other_name: str | None
    images: int
    detections: int
    lowest_score: float | None
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def objects(self) -> int:
        """How many objects the images have in the measured categories, without crowd regions."""
        return sum(each.objects for each in self.served.classes)

    @property
    def ok(self) -> bool:
        """Whether every image was answered and every limit is kept."""
        return not self.failures and not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the object that `endcap evaluate --json` prints."""
        return {
            "images": self.images,
            "objects": self.objects,
            "detections": self.detections,
            "lowest_score": self.lowest_score,
            "served": asdict(self.served),
            "compared_with": self.other_name,
            "other": asdict(self.other) if self.other else None,
            "difference": differences(self.served, self.other) if self.other else None,
            "failures": [each.to_json() for each in self.failures],
            "notes": list(self.notes),
            "problems": list(self.problems),
        }


def difference(served: float | None, other: float | None) -> float | None:
    """Return how much more the served model has; None where one has no value."""
    return None if served is None or other is None else served - other


def differences(served: Accuracy, other: Accuracy) -> dict[str, float | None]:
    """Return the difference of each measure, by its field's name."""
    return {
        field: difference(getattr(served, field), getattr(other, field))
        for field in MEASURES.values()
    }


def broken_limits(
    served: Accuracy,
    other: Accuracy | None,
    *,
    max_difference: float | None,
    min_map50: float | None,
) -> tuple[str, ...]:
    """Return a message for each limit that is not kept; None is no limit.

    Args:
        max_difference: That mAP50 and mAP50-95 may differ by, in either direction.
        min_map50: That the served mAP50 must reach.
    """
    problems = []
    if min_map50 is not None and (served.map50 is None or served.map50 < min_map50):
        problems.append(f"mAP50 is {_shown(served.map50)}, below --min-map50 {min_map50:g}")
    if max_difference is not None and other is not None:
        for name in _COMPARED:
            ours, theirs = (getattr(each, MEASURES[name]) for each in (served, other))
            apart = difference(ours, theirs)
            if apart is not None and abs(apart) > max_difference:
                problems.append(
                    f"{name} is {_shown(ours)} served and {_shown(theirs)} otherwise, a difference "
                    f"of {apart:+.6f}, beyond --max-difference {max_difference:g}"
                )
    return tuple(problems)


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6f}"
