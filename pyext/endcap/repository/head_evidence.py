"""A head, hints for its recognition, and what boxes and scores of a trial run show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from endcap.repository.network_tensors import NetworkOutput, ScoreColumns
from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import Decision, InitOptions
from endcap.triton.labels import read_labels

Numbers = NDArray[np.float64]
MOST_FINAL_ROWS = 1000  # that networks with suppression inside give
_NOT_TRIED = "assumed, as it could not be tried"
_LARGEST_FRACTION = 2.0  # a box given as a fraction of the image, with room for what sticks out
_ROUNDING = 1e-3  # of float16 at 1
_LARGEST_LOGIT = 50.0  # far beyond what a network's last layer gives, and coordinates reach


@dataclass(frozen=True)
class Head:
    """One way to read a network's outputs.

    Attributes:
        family: A family of postprocess, or the name of a head that it does not read.
        inputs: The network's output for each input of postprocess.
        num_classes: None where the outputs do not determine it.
        reason: The evidence, for messages and the README.
        is_sure: Whether shapes, names, metadata or values of the trial run confirm it. The only
            sure head is taken; with none or several the user has to choose.
        parameters: Of postprocess, beside the family.
        preset: How images are prepared for all networks with this head; None where unknown.
        recipe: What differs from that preset.
        is_likely: Whether it is among the choices that an error message names where none is sure.
        missing: What the user has to add before it can be read, and how; "" where nothing.
        classes_reason: What determines `num_classes`.
    """

    family: str
    inputs: Mapping[str, NetworkOutput]
    num_classes: int | None
    reason: str
    is_sure: bool
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    preset: str | None = None
    recipe: Mapping[str, Decision] = field(default_factory=dict)
    is_likely: bool = True
    missing: str = ""
    classes_reason: str = "the head's shape"

    def __str__(self) -> str:
        """Return the family and the reason: `yolov8 (output0 [84, 8400]: ...)`."""
        return f"{self.family} ({self.reason})"


@dataclass(frozen=True)
class Hints:
    """What is known of a network beside its outputs.

    Attributes:
        size: Height and width of the images.
        metadata: The exporter's.
        num_classes: By the user or the metadata; None where neither has it.
        wanted: The family that the user names.
        settings: Parameters that the user gives.
        score_columns: Of a network with suppression inside; None where they are not known.
        columns: Of rows with box, score and class, where the user gives them: those of the box's
            four numbers, of the score and of the class; () where not.
        row_length: How many columns there are; 0 where the user does not give them.
    """

    size: tuple[int, int]
    metadata: ExporterMetadata
    num_classes: int | None
    wanted: str | None
    settings: Mapping[str, str]
    score_columns: ScoreColumns | None = None
    columns: tuple[int, ...] = ()
    row_length: int = 0


def collect_hints(
    size: tuple[int, int],
    metadata: ExporterMetadata,
    options: InitOptions,
    score_columns: ScoreColumns | None = None,
) -> Hints:
    """Return the hints.

    Raises:
        InvalidArgumentError: The file of class names cannot be read.
    """
    columns, row_length = options.row_columns()
    return Hints(
        size=size,
        metadata=metadata,
        num_classes=_num_classes(metadata, options),
        wanted=options.head,
        settings=options.settings,
        score_columns=score_columns,
        columns=columns,
        row_length=row_length,
    )


def _num_classes(metadata: ExporterMetadata, options: InitOptions) -> int | None:
    if options.num_classes is not None:
        return options.num_classes
    if options.labels is not None:
        return len(read_labels(options.labels))
    return len(metadata.names) if metadata.names else metadata.num_classes


def box_unit(boxes: Numbers | None) -> Decision:
    """Return whether boxes [N, 4] are in pixels or fractions of the image."""
    if boxes is None:
        return Decision("pixel", _NOT_TRIED)
    if not boxes.any():
        return Decision("pixel", "assumed, as noise gives no boxes")
    largest = float(np.abs(boxes).max())
    if largest <= _LARGEST_FRACTION:
        return Decision("normalized", f"no box of a trial run exceeds {largest:.2f}")
    return Decision("pixel", f"boxes of a trial run reach {largest:.0f}")


def score_activation(scores: Numbers | None) -> Decision | None:
    """Return the activation that scores [N, C] still need; None for columns of several kinds."""
    if scores is None:
        return Decision("none", _NOT_TRIED)
    low, high = float(scores.min()), float(scores.max())
    if are_fractions(scores):
        return Decision("none", "scores of a trial run are from 0 to 1")
    leaves = (scores.min(axis=0) < -_ROUNDING) | (scores.max(axis=0) > 1 + _ROUNDING)
    if not leaves.all() or max(-low, high) > _LARGEST_LOGIT:
        return None
    return Decision("sigmoid", f"scores of a trial run are from {low:.1f} to {high:.1f}")


def cover_image(boxes: Numbers, size: tuple[int, int]) -> bool:
    """Return whether the centres of boxes [N, 4] lie all over the image, as those of grids do."""
    width = size[1] if np.abs(boxes).max() > _LARGEST_FRACTION else 1
    return float(np.ptp(boxes[:, 0])) > width / 2


def have_sizes(boxes: Numbers) -> bool:
    """Return whether boxes [N, 4] may be centre and size; logarithms of sizes are negative."""
    return bool((boxes[:, 2:] >= 0).all())


def are_fractions(values: Numbers) -> bool:
    """Return whether all values are from 0 to 1, but for the rounding of a sigmoid or softmax."""
    return bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())


def are_corners(boxes: Numbers) -> bool:
    """Return whether boxes [N, 4] may be x1, y1, x2, y2."""
    return bool((boxes[:, 2:] >= boxes[:, :2]).all())
