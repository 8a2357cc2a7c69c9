"""What scores [N, columns] beside boxes are: how many classes, and whether one is for no object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from endcap.repository.boxes_and_scores import Numbers
from endcap.repository.decision import AS_GIVEN, Decision
from endcap.repository.hints import Hints
from endcap.repository.network_output import NetworkOutput

_PLACES = {"none", "first", "last"}
_MOST_ROWS = 0.9  # of noise are background to a network that was trained
_SUM_WITHIN = 1e-2  # of rows after a softmax, in half precision


@dataclass(frozen=True)
class PairScores:
    """parameters: of postprocess. lacks: what has to be said, and how, "" where nothing."""

    num_classes: int | None
    has_background: bool
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    lacks: str = ""


def read_pair_scores(
    scores: NetworkOutput, hints: Hints, *, background_place: str | None
) -> PairScores:
    """Find out what can be known.

    Args:
        background_place: Where the family has the column for no object; None to be found out.
    """
    columns, told = scores.dims[1], hints.num_classes
    given = hints.settings.get("background")
    if given in _PLACES:
        return _read(scores, Decision(given, AS_GIVEN))
    if told == columns:
        return _read(scores, Decision("none", f"{columns} scores for as many classes"))
    if told is not None and told != columns - 1:
        lacks = (
            f"{scores.name} has {columns} scores for each box, and the classes are {told}; give "
            "--labels FILE or --num-classes with as many, or one less where a score is for no "
            "object"
        )
        return PairScores(None, has_background=False, lacks=lacks)
    if told is None and not _add_up(scores.values):
        lacks = (
            f"nothing tells whether one of the {columns} scores of {scores.name} is for no object; "
            f"give --labels FILE, or --num-classes {columns - 1} (one is, as in DETR and SSD) or "
            f"{columns} (none is, as in RT-DETR and RetinaNet)"
        )
        return PairScores(None, has_background=False, lacks=lacks)
    reason = "one score more than classes" if told else "scores of a trial run add up to 1"
    place = Decision(background_place, reason) if background_place else _place(scores.values)
    if place is None:
        lacks = (
            f"nothing tells which of the {columns} scores of {scores.name} is for no object; give "
            "--set background=first or last"
        )
        return PairScores(columns - 1, has_background=True, lacks=lacks)
    return _read(scores, place)


def _read(scores: NetworkOutput, background: Decision) -> PairScores:
    has_background = background.value != "none"
    return PairScores(
        scores.dims[1] - has_background,
        has_background,
        {"background": background, "activation": _activation(scores.values, has_background)},
    )


def _activation(values: Numbers | None, has_background: bool) -> Decision:
    family = "softmax" if has_background else "sigmoid"
    if values is None or not values.any():
        return Decision(family, "what networks with such scores need; it could not be seen")
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return Decision("none", "scores of a trial run are from 0 to 1")
    return Decision(family, f"scores of a trial run are from {low:.1f} to {high:.1f}")


def _add_up(values: Numbers | None) -> bool:
    """Whether a softmax was over each row, which leaves detectors a column for no object."""
    if values is None or values.min() < 0:
        return False
    return bool((abs(values.sum(axis=1) - 1) < _SUM_WITHIN).all())


def _place(values: Numbers | None) -> Decision | None:
    """Where most boxes of noise have their best score: at one end is the column for no object."""
    if values is None:
        return None
    best = values.argmax(axis=1)
    for place, column in (("first", 0), ("last", values.shape[1] - 1)):
        share = float(np.mean(best == column))
        if share >= _MOST_ROWS and values.any():
            reason = f"the {place} score is the best of {share:.0%} of the boxes of noise"
            return Decision(place, reason)
    return None
