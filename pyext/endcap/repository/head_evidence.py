"""A head, hints for its recognition, and what boxes and scores of a trial run show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.metadata import NetworkMetadata
from endcap.repository.network_tensors import NetworkOutput
from endcap.repository.options import Decision, InitOptions

Numbers = NDArray[np.float64]
Outputs = Sequence[NetworkOutput]
PADDING = -1  # the class id of rows that exporters fill up with
FAMILY_DEFAULT = "the default of this family"
NO_CORNERS = "boxes of a trial run cannot be corners: some are the wrong way"
_MAX_FRACTION = 2.0  # of a box given as a fraction of the image, with room for what sticks out
_ROUNDING = 1e-3  # of float16 at 1
_MAX_LOGIT = 50.0  # far beyond what a network's last layer gives, and coordinates reach


@dataclass(frozen=True)
class Head:
    """One way to read a network's outputs."""

    family: str
    inputs: Mapping[str, NetworkOutput]  # by the inputs of postprocess
    num_classes: int | None  # None where the outputs do not determine it
    reason: str  # the evidence, for messages and the README
    is_sure: bool = True  # whether shapes, names, metadata or values of the trial run confirm it
    parameters: Mapping[str, Decision] = field(default_factory=dict)  # of postprocess
    preset: str | None = None  # of the images for all networks with this head
    recipe: Mapping[str, Decision] = field(default_factory=dict)  # what differs from that preset
    missing: str = ""  # what the user has to add before it can be read, and how
    classes_reason: str = "the head's shape"

    def __str__(self) -> str:
        """Return the family and the reason: `yolov8 (output0 [84, 8400]: ...)`."""
        return f"{self.family} ({self.reason})"

    @property
    def is_for_one_image(self) -> bool:
        """Whether no export of the network would take batches."""
        return any(output.edit.adds_batch for output in self.inputs.values())


@dataclass(frozen=True)
class Hints:
    """What is known of a network in addition to its outputs."""

    size: tuple[int, int]  # height and width of the images
    metadata: NetworkMetadata
    num_classes: int | None = None  # by the user or the metadata
    options: InitOptions = field(default_factory=InitOptions)
    score_columns: tuple[str, int] | None = None  # as of Trial
    graph: Any = None  # onnx.GraphProto


def box_unit(boxes: Numbers) -> Decision:
    """Return whether boxes [N, 4] are in pixels or fractions of the image."""
    if not boxes.any():
        return Decision("pixel", "assumed, as noise gives no boxes")
    largest = float(np.abs(boxes).max())
    if largest <= _MAX_FRACTION:
        return Decision("normalized", f"no box of a trial run exceeds {largest:.2f}")
    return Decision("pixel", f"boxes of a trial run reach {largest:.0f}")


def score_activation(scores: Numbers) -> Decision | None:
    """Return the activation that scores [N, C] still need; None for columns of several kinds."""
    if are_fractions(scores):
        return Decision("none", "scores of a trial run are from 0 to 1")
    leaves = (scores.min(axis=0) < -_ROUNDING) | (scores.max(axis=0) > 1 + _ROUNDING)
    if not leaves.all() or abs(scores).max() > _MAX_LOGIT:
        return None
    reason = f"scores of a trial run are from {scores.min():.1f} to {scores.max():.1f}"
    return Decision("sigmoid", reason)


def cover_image(boxes: Numbers, size: tuple[int, int]) -> bool:
    """Return whether the centres of boxes lie all over the image, as those of grids do."""
    width = size[1] if np.abs(boxes).max() > _MAX_FRACTION else 1
    return float(np.ptp(boxes[:, 0])) > width / 2


def have_sizes(boxes: Numbers) -> bool:
    """Return whether boxes [N, 4] may be centre and size; logarithms of sizes are negative."""
    return bool((boxes[:, 2:] >= 0).all())


def are_corners(boxes: Numbers) -> bool:
    """Return whether boxes [N, 4] may be x1, y1, x2, y2."""
    return bool((boxes[:, 2:] >= boxes[:, :2]).all())


def are_fractions(values: Numbers) -> bool:
    """Return whether all values are from 0 to 1, but for the rounding of a sigmoid or softmax."""
    return bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())


def are_class_ids(values: Numbers) -> bool:
    """Return whether numbers may be class ids, PADDING among them."""
    return bool(((values >= PADDING) & (values == np.round(values))).all())


def may_be_detections(rows: Numbers) -> bool:
    """Return whether the fifth column may hold scores and the sixth class ids."""
    scores, class_ids = rows[:, 4], rows[:, 5]
    return are_fractions(scores[class_ids != PADDING]) and are_class_ids(class_ids)
