"""Heads with masks, keypoints and angles: endcap's Postprocessor beside ultralytics.

Each head is a detector's (benchmarks.postprocess.head and .rotated) with rows below the scores.
ultralytics does what its predictors do: non_max_suppression, then process_mask at the input's
resolution, or scale_coords; for angles nothing more. Boxes stay in pixels of the input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.paths import BUILD
from benchmarks.postprocess import rotated
from benchmarks.postprocess.head import NUM_CLASSES, SIDE, Floats, make
from benchmarks.timing import Case

IOU_THRESHOLD = 0.7
SCORE_THRESHOLD = 0.25
NUM_MASKS = 50
NUM_PROTOTYPES = 32
PROTOTYPE_SIDE = 160
NUM_KEYPOINTS = 17
ROTATED_CLASSES = 15
_FINEST_WAVE = 9  # waves of the prototypes across a side, at most: blobs, and not noise


@dataclass(frozen=True)
class Response:
    """What somebody kept, best first, and the values of each: a mask, keypoints or an angle."""

    kept: list[tuple[int, int]]  # anchor and class
    values: npt.NDArray[Any]


@dataclass(frozen=True)
class TaskHead:
    """One comparison.

    Attributes:
        head: Float32 rows, and prototypes where there are some.
        ours: By how it is called, what endcap does.
        worst: How much two values may differ, by `difference`.
    """

    num_classes: int
    head: Mapping[str, Floats]
    ours: Mapping[str, Callable[[], tuple[Case, Response]]]
    theirs: Callable[[], tuple[Case, Response]]
    difference: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float]
    worst: float

    def candidates(self) -> int:
        """Anchors over the threshold."""
        scores = self.head["head"][4 : 4 + self.num_classes]
        return int((scores > SCORE_THRESHOLD).any(axis=0).sum())


def mask_error(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    """1 - IoU of the two masks that agree least, of those with more than some pixels."""
    both, either = (ours & theirs).sum((1, 2)), (ours | theirs).sum((1, 2))
    large = either > 100
    return float(1 - (both[large] / either[large]).min())


def largest(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    """Return the largest difference of two numbers."""
    return float(np.abs(ours - theirs).max())


def _segmentation() -> TaskHead:
    random = np.random.default_rng(1)
    plain = make()
    coefficients = random.normal(0, 1, (NUM_PROTOTYPES, plain.shape[1]))
    line = np.linspace(0, 2 * np.pi, PROTOTYPE_SIDE)
    waves, phases = (
        random.uniform(1, _FINEST_WAVE, (2, NUM_PROTOTYPES)),
        random.uniform(0, 6, (2, NUM_PROTOTYPES)),
    )
    across, down = (
        np.cos(np.outer(wave, line) + phase[:, None])
        for wave, phase in zip(waves, phases, strict=True)
    )
    head = {
        "head": np.concatenate([plain, coefficients]).astype(np.float32),
        "protos": (across[:, None] * down[:, :, None]).astype(np.float32),
    }

    def fresh_head() -> dict[str, Any]:
        return {name: tensor.copy() for name, tensor in head.items()}

    def ours(*, packed: bool) -> tuple[Case, Response]:
        postprocess = endcap.Postprocessor(
            "yolov8_seg",
            NUM_CLASSES,
            max_detections=NUM_MASKS,
            iou_threshold=IOU_THRESHOLD,
            mask_resolution="input",
            packed_masks=packed,
            threads=1,
        )
        rows: Any = postprocess(head)
        return Case(run=postprocess, prepare=fresh_head), Response(_kept(rows[0]), rows[0].masks)

    def theirs() -> tuple[Case, Response]:
        torch, suppress = _ultralytics()
        from ultralytics.utils.ops import process_mask

        protos = torch.from_numpy(head["protos"])

        def run(fresh: Any) -> Any:
            rows, anchors = suppress(fresh, NUM_CLASSES, max_det=NUM_MASKS)
            return (
                process_mask(protos, rows[:, 6:], rows[:, :4], (SIDE, SIDE), upsample=True),
                rows,
                anchors,
            )

        tensor = torch.from_numpy(head["head"])[None]
        masks, rows, anchors = run(tensor.clone())
        return Case(run=run, prepare=tensor.clone), Response(
            _pairs(anchors, rows), masks.numpy().astype(bool)
        )

    return TaskHead(
        NUM_CLASSES,
        head,
        {
            "endcap": lambda: ours(packed=False),
            "endcap, packed bits too": lambda: ours(packed=True),
        },
        theirs,
        mask_error,
        0.01,
    )


def _pose() -> TaskHead:
    random = np.random.default_rng(2)
    plain = make()
    best = plain[4:].max(axis=0, keepdims=True)
    points = random.uniform(0, SIDE, (NUM_KEYPOINTS, 3, plain.shape[1]))
    points[:, 2] /= SIDE
    rows = [plain[:4], best, points.reshape(3 * NUM_KEYPOINTS, -1)]
    head = np.concatenate(rows).astype(np.float32)

    def ours() -> tuple[Case, Response]:
        postprocess = endcap.Postprocessor(
            "yolov8_pose", num_classes=1, threads=1, iou_threshold=IOU_THRESHOLD
        )
        rows: Any = postprocess(head)
        return Case(run=postprocess, prepare=head.copy), Response(_kept(rows[0]), rows[0].keypoints)

    def theirs() -> tuple[Case, Response]:
        torch, suppress = _ultralytics()
        from ultralytics.utils.ops import scale_coords

        def run(fresh: Any) -> Any:
            rows, anchors = suppress(fresh, 1)
            keypoints = rows[:, 6:].view(len(rows), NUM_KEYPOINTS, 3)
            return scale_coords((SIDE, SIDE), keypoints, (SIDE, SIDE)), rows, anchors

        tensor = torch.from_numpy(head)[None]
        keypoints, rows, anchors = run(tensor.clone())
        return Case(run=run, prepare=tensor.clone), Response(
            _pairs(anchors, rows), keypoints.numpy()
        )

    return TaskHead(1, {"head": head}, {"endcap": ours}, theirs, largest, 1e-3)


def _rotated() -> TaskHead:
    random = np.random.default_rng(3)
    boxes, scores = rotated.candidates()
    head = np.zeros((4 + ROTATED_CLASSES + 1, 8400), np.float32)
    places = random.permutation(head.shape[1])[: len(boxes)]
    head[:4, places], head[-1, places] = boxes[:, :4].T, boxes[:, 4]
    head[4 + random.integers(ROTATED_CLASSES, size=len(boxes)), places] = 0.3 + 0.6 * scores

    def ours() -> tuple[Case, Response]:
        postprocess = endcap.Postprocessor(
            "yolov8_obb",
            ROTATED_CLASSES,
            threads=1,
            iou_threshold=rotated.IOU_THRESHOLD,
            max_detections=len(boxes),
            rotated_nms="probiou_fast",
        )
        rows: Any = postprocess(head)
        return Case(run=postprocess, prepare=head.copy), Response(_kept(rows[0]), rows[0].angles)

    def theirs() -> tuple[Case, Response]:
        torch, suppress = _ultralytics()
        options = {"iou_thres": rotated.IOU_THRESHOLD, "max_det": len(boxes), "rotated": True}

        def run(fresh: Any) -> Any:
            return suppress(fresh, ROTATED_CLASSES, **options)

        tensor = torch.from_numpy(head)[None]
        rows, anchors = run(tensor.clone())
        return Case(run=run, prepare=tensor.clone), Response(
            _pairs(anchors, rows), rows[:, 6].numpy()
        )

    return TaskHead(ROTATED_CLASSES, {"head": head}, {"endcap": ours}, theirs, largest, 1e-3)


def _ultralytics() -> tuple[Any, Callable[..., Any]]:
    """Return torch on one thread, and the suppression of one image: its rows and their anchors."""
    # Its settings file goes to the build folder, not into the home directory.
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    import torch
    import torchvision  # noqa: F401  its presence decides which algorithm runs
    from ultralytics.utils.nms import non_max_suppression

    torch.set_num_threads(1)

    def suppress(tensor: Any, num_classes: int, **options: Any) -> Any:
        given = {"conf_thres": SCORE_THRESHOLD, "iou_thres": IOU_THRESHOLD, "nc": num_classes}
        (rows,), (anchors,) = non_max_suppression(
            tensor, max_time_img=1e9, return_idxs=True, **{**given, "max_det": 300, **options}
        )
        return rows, anchors

    return torch, suppress


def _kept(rows: Any) -> list[tuple[int, int]]:
    return list(zip(rows.indices.tolist(), rows.class_ids.tolist(), strict=True))


def _pairs(anchors: Any, rows: Any) -> list[tuple[int, int]]:
    return list(zip(anchors.tolist(), rows[:, 5].int().tolist(), strict=True))


TASKS: Mapping[str, Callable[[], TaskHead]] = {
    f"seg head, {NUM_PROTOTYPES} prototypes, {NUM_MASKS} masks": _segmentation,
    f"pose head, {NUM_KEYPOINTS} keypoints": _pose,
    f"obb head, {rotated.NUM_BOXES:,} candidates": _rotated,
}
