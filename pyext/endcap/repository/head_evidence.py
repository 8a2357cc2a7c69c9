"""A head, hints for its recognition, and what boxes and scores of a trial run show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.network_tensors import NetworkOutput, ScoreColumns
from endcap.repository.onnx_file import RTDETR_DECODER, ExporterMetadata, OnnxFile
from endcap.repository.options import Decision, InitOptions
from endcap.triton.labels import read_labels

Numbers = NDArray[np.float64]
Outputs = Sequence[NetworkOutput]
PADDING = -1  # the class id of rows that exporters fill up with
FAMILY_DEFAULT = "what this family gives"
NO_CORNERS = "boxes of a trial run cannot be corners: some are the wrong way"
_NOT_TRIED = "assumed, as it could not be tried"
_MAX_FRACTION = 2.0  # of a box given as a fraction of the image, with room for what sticks out
_ROUNDING = 1e-3  # of float16 at 1
_MAX_LOGIT = 50.0  # far beyond what a network's last layer gives, and coordinates reach
_SUM_TOLERANCE = 1e-2  # of rows after a softmax, in half precision
# Of the boxes of noise, as many as this have their best score in the background column.
_MIN_BACKGROUND_SHARE = 0.9


@dataclass(frozen=True)
class Head:
    """One way to read a network's outputs.

    Attributes:
        family: A family of postprocess, or the name of a head that it does not read.
        inputs: The network's output for each input of postprocess.
        num_classes: None where the outputs do not determine it.
        reason: The evidence, for messages and the README.
        is_sure: Whether shapes, names, metadata or values of the trial run confirm it.
        parameters: Of postprocess, in addition to the family.
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
    is_sure: bool = True
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
    """What is known of a network in addition to its outputs.

    Attributes:
        size: Height and width of the images.
        metadata: The exporter's.
        num_classes: By the user or the metadata; None where neither has it.
        options: What the user gives.
        count_columns: Returns how many scores each box has before suppression in the network, for
            the output with the scores behind it; None where that is not known.
        graph: The network's, onnx.GraphProto.
    """

    size: tuple[int, int]
    metadata: ExporterMetadata
    num_classes: int | None = None
    options: InitOptions = field(default_factory=InitOptions)
    count_columns: Callable[[NetworkOutput], ScoreColumns | None] = lambda _: None
    graph: Any = None


def collect_hints(
    network: OnnxFile,
    size: tuple[int, int],
    options: InitOptions,
    count_columns: Callable[[NetworkOutput], ScoreColumns | None],
) -> Hints:
    """Return the hints.

    Raises:
        InvalidArgumentError: The file of class names cannot be read.
    """
    metadata, num_classes = network.metadata, options.num_classes
    if num_classes is None and options.labels is not None:
        num_classes = len(read_labels(options.labels))
    if num_classes is None:
        num_classes = len(metadata.names) if metadata.names else metadata.num_classes
    return Hints(size, metadata, num_classes, options, count_columns, network.model.graph)


def box_unit(boxes: Numbers | None) -> Decision:
    """Return whether boxes [N, 4] are in pixels or fractions of the image."""
    if boxes is None:
        return Decision("pixel", _NOT_TRIED)
    if not boxes.any():
        return Decision("pixel", "assumed, as noise gives no boxes")
    largest = float(np.abs(boxes).max())
    if largest <= _MAX_FRACTION:
        return Decision("normalized", f"no box of a trial run exceeds {largest:.2f}")
    return Decision("pixel", f"boxes of a trial run reach {largest:.0f}")


def final_box_parameters(boxes: Numbers | None, head: str) -> dict[str, Decision]:
    """Return format and unit of boxes after suppression, which are corners with most exporters.

    Args:
        boxes: Of a trial run, without padding.
        head: The network's last module, by the metadata.
    """
    box_format = Decision("xyxy", "what networks with suppression inside give")
    if head == RTDETR_DECODER:
        reason = f"the network's head is {RTDETR_DECODER}, by the metadata"
        box_format = Decision("cxcywh", reason)
    elif boxes is not None and not are_corners(boxes):
        box_format = Decision("cxcywh", NO_CORNERS)
    return {"box_format": box_format, "box_unit": box_unit(boxes)}


def placed_box_parameters(
    boxes: Numbers | None, size: tuple[int, int]
) -> dict[str, Decision] | None:
    """Return format and unit of boxes all over the image; None for others, such as offsets."""
    if boxes is None or not boxes.any():
        return None
    centres = boxes
    if are_corners(boxes):
        centres = np.hstack([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:]])
        reason = "no box of a trial run has its corners the wrong way"
        box_format = Decision("xyxy", reason)
    elif have_sizes(boxes):
        box_format = Decision("cxcywh", NO_CORNERS)
    else:
        return None
    if not cover_image(centres, size):
        return None
    return {"box_format": box_format, "box_unit": box_unit(boxes)}


def score_activation(scores: Numbers | None) -> Decision | None:
    """Return the activation that scores [N, C] still need; None for columns of several kinds."""
    if scores is None:
        return Decision("none", _NOT_TRIED)
    low, high = float(scores.min()), float(scores.max())
    if are_fractions(scores):
        return Decision("none", "scores of a trial run are from 0 to 1")
    leaves = (scores.min(axis=0) < -_ROUNDING) | (scores.max(axis=0) > 1 + _ROUNDING)
    if not leaves.all() or max(-low, high) > _MAX_LOGIT:
        return None
    return Decision("sigmoid", f"scores of a trial run are from {low:.1f} to {high:.1f}")


def pair_activation(scores: Numbers | None, *, has_background: bool) -> Decision:
    """Return the activation of scores next to boxes."""
    usual = "softmax" if has_background else "sigmoid"
    if scores is None or not scores.any():
        return Decision(usual, "what networks with such scores need; it could not be seen")
    if are_fractions(scores):
        return Decision("none", "scores of a trial run are from 0 to 1")
    low, high = float(scores.min()), float(scores.max())
    return Decision(usual, f"scores of a trial run are from {low:.1f} to {high:.1f}")


def find_background(scores: Numbers | None) -> Decision | None:
    """Return where most boxes of noise have their best score, if at an end: the background."""
    if scores is None or not scores.any():
        return None
    best = scores.argmax(axis=1)
    for place, column in (("first", 0), ("last", scores.shape[1] - 1)):
        share = float(np.mean(best == column))
        if share >= _MIN_BACKGROUND_SHARE:
            reason = f"the {place} score is the best of {share:.0%} of the boxes of noise"
            return Decision(place, reason)
    return None


def add_up(scores: Numbers | None) -> bool:
    """Return whether a softmax was over each row, which leaves detectors a column for no object."""
    if scores is None or scores.min() < 0:
        return False
    return bool((abs(scores.sum(axis=1) - 1) < _SUM_TOLERANCE).all())


def cover_image(boxes: Numbers, size: tuple[int, int]) -> bool:
    """Return whether the centres of boxes [N, 4] lie all over the image, as those of grids do."""
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


def are_class_ids(output: NetworkOutput) -> bool:
    """Return whether the numbers of an output may be class ids, PADDING among them."""
    values = output.values
    return values is not None and bool(values.size) and _are_whole(values)


def may_be_detections(rows: Numbers | None) -> bool:
    """Return whether the fifth column may hold scores and the sixth class ids."""
    if rows is None:
        return True
    scores, class_ids = rows[:, 4], rows[:, 5]
    return are_fractions(scores[class_ids != PADDING]) and _are_whole(class_ids)


def _are_whole(values: Numbers) -> bool:
    return bool(((values >= PADDING) & (values == np.round(values))).all())
