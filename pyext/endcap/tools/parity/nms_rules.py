"""Rules of suppression by which a training pipeline's detections come from a network's outputs.

The same outputs go through the training's postprocessing and through endcap's. Where the
detections differ, parameters of postprocess are tried one by one; those stay without which the
detections are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.detections import ImageDetections
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.numpy_heads import box_iou
from endcap.tools.parity.causes import Cause
from endcap.tools.parity.outputs import Postprocessing, detect
from endcap.tools.parity.pipelines import find_function, to_numpy, user_code

# Boxes [N, 4] xyxy in pixels of the tensor, scores [N], class ids [N].
Detected = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
TrainingPostprocess = Callable[[Mapping[str, NDArray[Any]]], Detected]

_ULTRALYTICS_HEADS = ("yolov8", "yolov8_seg", "yolov8_pose")
_SAME_IOU, _SAME_SCORE = 0.95, 0.005
_IOU_THRESHOLDS = ("0.3", "0.4", "0.45", "0.5", "0.55", "0.6", "0.65", "0.7", "0.75", "0.8", "0.9")
_SCORE_THRESHOLDS = ("0.001", "0.01", "0.05", "0.1", "0.2", "0.25", "0.3", "0.4", "0.5", "0.6")
_COUNTS = ("100", "300", "1000")
_LEVELS: dict[str, tuple[str, ...]] = {
    "score_threshold": _SCORE_THRESHOLDS,
    "iou_threshold": _IOU_THRESHOLDS,
    "class_agnostic": ("false", "true"),
    "multi_label": ("false", "true"),
    "max_detections": _COUNTS,
}
_TITLES = {
    "score_threshold": "least score",
    "iou_threshold": "IoU of suppression",
    "class_agnostic": "boxes of other classes suppress",
    "multi_label": "several classes of one box",
    "max_detections": "most detections",
}
_MOST_CHANGES = 5
# A change counts when it mends this share of the detections.
_LEAST_SHARE = 0.002


@dataclass(frozen=True)
class RulesReport:
    """What was found.

    Attributes:
        before: The share of detections, of either side, that the other side does not have.
        after: The same with `causes` set.
        causes: The parameters in which the two differ.
    """

    before: float
    after: float
    causes: tuple[Cause, ...]

    @property
    def ok(self) -> bool:
        """Whether the detections are the same."""
        return self.before < _LEAST_SHARE

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return {
            "different_share_before": self.before,
            "different_share_after": self.after,
            "causes": [each.to_json() for each in self.causes],
        }


def load_postprocess(text: str, postprocess: Mapping[str, str]) -> TrainingPostprocess:
    """Return the postprocessing of a training: `ultralytics`, or `module:function`.

    The function takes the network's outputs by name, arrays with the batch's dimension, and returns
    boxes [N, 4] (xyxy in pixels of the tensor), scores [N] and class ids [N], or [N, 6] of these.

    Args:
        text: The name.
        postprocess: Endcap's parameters, for the number of classes.

    Raises:
        EvaluationError: A package is missing.
        InvalidArgumentError: There is no such function, or it does not read such a head.
    """
    if text == "ultralytics":
        if postprocess.get("head") not in _ULTRALYTICS_HEADS:
            raise InvalidArgumentError(
                f"--training-postprocess ultralytics reads {', '.join(_ULTRALYTICS_HEADS)}, and "
                f"the head is {postprocess.get('head')}; give MODULE:FUNCTION"
            )
        return _ultralytics(int(postprocess.get("num_classes", "80")))
    module, colon, name = text.partition(":")
    if not colon:
        raise InvalidArgumentError(
            f"--training-postprocess is '{text}'; give ultralytics or module:function"
        )
    function = find_function(module, name, "--training-postprocess")

    def run(outputs: Mapping[str, NDArray[Any]]) -> Detected:
        with user_code(f"{text} failed"):
            return _detected(function(dict(outputs)), text)

    return run


def _ultralytics(num_classes: int) -> TrainingPostprocess:
    torch: Any = import_package("torch", package="ultralytics")
    nms: Any = import_package("ultralytics.utils.nms", package="ultralytics")

    def run(outputs: Mapping[str, NDArray[Any]]) -> Detected:
        (array, *_) = (each for each in outputs.values() if each.ndim == 3)
        head = torch.from_numpy(array.astype(np.float32))
        # Its time limit would make the result depend on the clock.
        found = nms.non_max_suppression(
            head, conf_thres=0.25, iou_thres=0.7, max_det=300, nc=num_classes, max_time_img=1e6
        )
        return _detected(found[0][:, :6], "ultralytics")

    return run


def _detected(value: Any, name: str) -> Detected:
    if isinstance(value, (tuple, list)) and len(value) == 3:
        boxes, scores, class_ids = (np.asarray(to_numpy(each)) for each in value)
    else:
        rows = np.asarray(to_numpy(value))
        if rows.size == 0:
            rows = np.zeros((0, 6))
        if rows.ndim != 2 or rows.shape[1] != 6:
            raise EvaluationError(
                f"{name} returned {list(rows.shape)}; boxes [N, 4], scores [N] and class ids [N] "
                "are expected, or rows [N, 6] of x1, y1, x2, y2, score, class id"
            )
        boxes, scores, class_ids = rows[:, :4], rows[:, 4], rows[:, 5]
    boxes, scores, class_ids = boxes.reshape(-1, 4), scores.reshape(-1), class_ids.reshape(-1)
    if not len(boxes) == len(scores) == len(class_ids):
        raise EvaluationError(
            f"{name} returned {len(boxes)} boxes, {len(scores)} scores and {len(class_ids)} class "
            "ids; as many of each are expected"
        )
    if not all(np.isfinite(each.astype(np.float64)).all() for each in (boxes, scores, class_ids)):
        raise EvaluationError(f"{name} returned numbers that are not finite")
    return boxes.astype(np.float64), scores.astype(np.float64), class_ids.astype(np.int64)


def compare_rules(
    outputs: Sequence[Mapping[str, NDArray[Any]]],
    postprocessing: Postprocessing,
    training: TrainingPostprocess,
    *,
    on_step: Callable[[], None] = lambda: None,
) -> RulesReport:
    """Find the parameters of postprocess that make the training's detections.

    Args:
        outputs: The network's, of each image.
        postprocessing: Endcap's.
        training: The training's.
        on_step: Is called after each set of parameters that was tried.

    Raises:
        EvaluationError: The training's postprocessing fails.
    """
    wanted = [training(each) for each in outputs]
    own = postprocessing.make().parameters
    levels = {name: _levels(name, values, wanted) for name, values in _LEVELS.items()}

    def cost(changes: Mapping[str, str]) -> float:
        on_step()
        try:
            postprocessor = postprocessing.make(**changes)
        except EndcapError:  # a parameter that this head does not have
            return 1.0
        found = [
            _arrays(detect(postprocessor, postprocessing.heads(each), None)) for each in outputs
        ]
        return _different_share(found, wanted)

    changes: dict[str, str] = {}
    before = best = cost({})
    for _ in range(_MOST_CHANGES):
        tried = [
            {**changes, name: value}
            for name, values in levels.items()
            for value in values
            if value != changes.get(name, own[name])
            and _comparable(value) != _comparable(own[name])
        ]
        costs = [(cost(each), number, each) for number, each in enumerate(tried)]
        lowest, _, nearest = min(costs, default=(1.0, 0, changes))
        if lowest > best - _LEAST_SHARE:
            break
        best, changes = lowest, nearest
    for name in list(changes):
        without = {other: value for other, value in changes.items() if other != name}
        if cost(without) <= best + _LEAST_SHARE:
            changes = without
    causes = tuple(
        Cause(
            name=name,
            title=_TITLES[name],
            training=value,
            endcap=own[name],
            parameters={name: value},
        )
        for name, value in changes.items()
    )
    return RulesReport(before, cost(changes), causes)


def _comparable(value: str) -> float | str:
    """Return a number's value, so that 0.70 and 0.7 are equal; another text as it is."""
    try:
        return float(value)
    except ValueError:
        return value


def _levels(name: str, values: tuple[str, ...], wanted: Sequence[Detected]) -> tuple[str, ...]:
    """Return the values to try; of the least score and the most detections also those seen."""
    if name == "score_threshold":
        lowest = min((float(scores.min()) for _, scores, _ in wanted if len(scores)), default=1.0)
        return tuple(value for value in values if float(value) <= lowest)
    if name == "max_detections":
        most = max((len(scores) for _, scores, _ in wanted), default=0)
        return tuple({*(value for value in values if int(value) >= most), str(max(most, 1))})
    return values


def _arrays(found: ImageDetections) -> Detected:
    return (
        found.boxes.astype(np.float64),
        found.scores.astype(np.float64),
        found.class_ids.astype(np.int64),
    )


def _different_share(found: Sequence[Detected], wanted: Sequence[Detected]) -> float:
    """Return the share of detections, of both sides, that the other side does not have."""
    different = total = 0
    for ours, theirs in zip(found, wanted, strict=True):
        same = _count_same(ours, theirs)
        total += len(ours[1]) + len(theirs[1])
        different += len(ours[1]) + len(theirs[1]) - 2 * same
    return different / total if total else 0.0


def _count_same(ours: Detected, theirs: Detected) -> int:
    free = np.ones(len(theirs[1]), bool)
    same = 0
    for box, score, class_id in zip(*ours, strict=True):
        fits = free & (theirs[2] == class_id) & (np.abs(theirs[1] - score) < _SAME_SCORE)
        if fits.any():
            overlaps = np.where(fits, box_iou(box, theirs[0]), 0.0)
            best = int(overlaps.argmax())
            if overlaps[best] > _SAME_IOU:
                free[best] = False
                same += 1
    return same
