"""Raw heads of one image with random boxes and scores, from a seed; FAMILIES has them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def random_boxes(random: np.random.Generator, count: int, *, side: float = 640) -> Floats:
    """cx, cy, w, h in pixels, float32 [count, 4]."""
    centers = random.uniform(0, side, (count, 2))
    sizes = random.uniform(1, side / 2, (count, 2))
    return np.hstack([centers, sizes]).astype(np.float32)


def yolov8_head(seed: int, *, anchors: int, num_classes: int, levels: int = 0) -> Floats:
    """float32 [4+C, A]; with `levels` scores take few values, so that ties are many."""
    random = np.random.default_rng(seed)
    scores = random.uniform(0, 1, (anchors, num_classes)) ** 3
    if levels:
        scores = np.round(scores * levels) / levels
    rows = np.hstack([random_boxes(random, anchors), scores]).astype(np.float32)
    return np.ascontiguousarray(rows.T)


def yolov5_head(seed: int, *, anchors: int, num_classes: int) -> Floats:
    random = np.random.default_rng(seed)
    scores = random.uniform(0, 1, (anchors, 1 + num_classes))
    return np.hstack([random_boxes(random, anchors), scores]).astype(np.float32)


def yolox_head(
    seed: int,
    *,
    size: tuple[int, int],
    num_classes: int,
    strides: tuple[int, ...] = (8, 16, 32),
) -> Floats:
    """Rows of offsets from the cell's corner, logarithms of sizes over the stride, and scores."""
    random = np.random.default_rng(seed)
    cells = sum(-(-size[0] // stride) * -(-size[1] // stride) for stride in strides)
    boxes = np.hstack([random.uniform(-1, 2, (cells, 2)), random.normal(0.3, 0.8, (cells, 2))])
    return np.hstack([boxes, random.uniform(0, 1, (cells, 1 + num_classes))]).astype(np.float32)


def end2end_head(seed: int, *, rows: int, num_classes: int) -> Floats:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 300, (rows, 2))
    boxes = np.hstack([corners, corners + random.uniform(1, 300, (rows, 2))])
    scores = random.uniform(0, 1, (rows, 1))
    class_ids = random.integers(0, num_classes, (rows, 1))
    return np.hstack([boxes, scores, class_ids]).astype(np.float32)


def efficient_nms_outputs(count: int, *, rows: int = 20) -> dict[str, npt.NDArray[np.generic]]:
    head = end2end_head(4, rows=rows, num_classes=7)
    return {
        "num_detections": np.array([count], np.int32),
        "boxes": np.ascontiguousarray(head[:, :4]),
        "scores": np.ascontiguousarray(-np.sort(-head[:, 4])),
        "classes": head[:, 5].astype(np.int32),
    }


def end2end_seg_outputs(
    seed: int, *, rows: int, num_classes: int, coefficients: int = 8, size: tuple[int, int]
) -> dict[str, Floats]:
    """Rows with coefficients behind the class, and prototypes."""
    random = np.random.default_rng(seed + 100)
    head = end2end_head(seed, rows=rows, num_classes=num_classes)
    more = random.normal(0, 1, (rows, coefficients)).astype(np.float32)
    protos = random.normal(0, 1, (coefficients, *size)).astype(np.float32)
    return {"head": np.hstack([head, more]), "protos": protos}


def end2end_pose_head(
    seed: int, *, rows: int, num_classes: int, keypoints: int, values: int = 3
) -> Floats:
    random = np.random.default_rng(seed + 100)
    head = end2end_head(seed, rows=rows, num_classes=num_classes)
    more = random.uniform(0, 600, (rows, keypoints * values)).astype(np.float32)
    return np.hstack([head, more])


def end2end_obb_head(seed: int, *, rows: int, num_classes: int) -> Floats:
    """Rows of cx, cy, w, h, score, class, angle."""
    random = np.random.default_rng(seed + 100)
    rest = end2end_head(seed, rows=rows, num_classes=num_classes)[:, 4:]
    angles = random.uniform(-1, 3, (rows, 1)).astype(np.float32)
    return np.hstack([random_boxes(random, rows), rest, angles])


def detections_outputs(seed: int, *, rows: int = 20) -> dict[str, npt.NDArray[np.generic]]:
    """Boxes, scores and int64 class ids from 0 to 6, as torchvision's detectors give them."""
    head = end2end_head(seed, rows=rows, num_classes=7)
    return {
        "boxes": np.ascontiguousarray(head[:, :4]),
        "scores": np.ascontiguousarray(-np.sort(-head[:, 4])),
        "classes": head[:, 5].astype(np.int64),
    }


def rtdetr_outputs(
    seed: int, *, queries: int, num_classes: int, columns: int | None = None
) -> dict[str, Floats]:
    """logits [Q, C] mostly far below 0, boxes [Q, 4] in fractions."""
    random = np.random.default_rng(seed)
    logits = random.normal(-2.5, 1.5, (queries, columns or num_classes)).astype(np.float32)
    boxes = random_boxes(random, queries, side=640) / np.float32(640)
    return {"logits": logits, "boxes": boxes}


def rtdetr_seg_outputs(
    seed: int, *, queries: int, num_classes: int, size: tuple[int, int]
) -> dict[str, Floats]:
    """rtdetr_outputs and masks [Q, *size], waves that make blobs inside and outside the boxes."""
    random = np.random.default_rng(seed + 4000)
    rows, columns = np.mgrid[: size[0], : size[1]] / 7
    phases = random.uniform(0, 6, (2, queries))[..., None, None]
    masks = np.sin(rows + phases[0]) * np.cos(columns + phases[1]) - 0.2
    heads = rtdetr_outputs(seed, queries=queries, num_classes=num_classes)
    return heads | {"masks": masks.astype(np.float32)}


def ssd_outputs(seed: int, *, anchors: int, columns: int) -> dict[str, Floats]:
    """boxes [A, 4] as offsets, scores [A, columns]: the first column is the greatest mostly."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 1.5, (anchors, columns))
    scores[:, 0] += 3
    corners = random.uniform(0, 500, (anchors, 2))
    sizes = random.uniform(4, 200, (anchors, 2))
    return {
        "boxes": random.normal(0, 1, (anchors, 4)).astype(np.float32),
        "scores": scores.astype(np.float32),
        "anchors": np.hstack([corners, corners + sizes]).astype(np.float32),
    }


def pose_head(
    seed: int, *, anchors: int, num_classes: int, keypoints: int, values: int = 3
) -> Floats:
    """float32 [4+C+P*values, A]."""
    random = np.random.default_rng(seed + 1000)
    head = yolov8_head(seed, anchors=anchors, num_classes=num_classes)
    points = random.uniform(0, 640, (keypoints, values, anchors)).astype(np.float32)
    points[:, 2:] /= 640
    return np.vstack([head, points.reshape(keypoints * values, anchors)])


def seg_outputs(
    seed: int, *, anchors: int, num_classes: int, size: tuple[int, int] = (160, 160), count: int = 8
) -> dict[str, Floats]:
    """head [4+C+count, A] and protos [count, *size], waves that make blobs of some pixels."""
    random = np.random.default_rng(seed + 2000)
    head = yolov8_head(seed, anchors=anchors, num_classes=num_classes)
    weights = random.normal(0, 1, (count, anchors)).astype(np.float32)
    rows, columns = np.mgrid[: size[0], : size[1]] / 12
    phases = random.uniform(0, 6, (3, count))[..., None, None]
    protos = np.sin(rows * (1 + phases[0] / 6) + phases[1]) * np.cos(columns + phases[2])
    return {"head": np.vstack([head, weights]), "protos": protos.astype(np.float32)}


def obb_head(seed: int, *, anchors: int, num_classes: int) -> Floats:
    """float32 [4+C+1, A]; angles from -7 to 7, so that all turns are among them."""
    random = np.random.default_rng(seed + 3000)
    head = yolov8_head(seed, anchors=anchors, num_classes=num_classes)
    return np.vstack([head, random.uniform(-7, 7, anchors).astype(np.float32)])


def logits(seed: int, *, num_classes: int) -> Floats:
    return np.random.default_rng(seed).normal(0, 3, num_classes).astype(np.float32)


def as_head(
    family: str, boxes: Floats, scores: Floats
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """The tensors of boxes [A, 4] in pixels with scores [A, C], and parameters that read them."""
    options: dict[str, Any] = {}
    if family in ("rtdetr", "ssd"):
        options["activation"] = "none"
    if family == "rtdetr":
        return {"logits": scores, "boxes": boxes}, options | {"box_unit": "pixel"}
    if family == "ssd":
        return {"boxes": boxes, "scores": scores}, options | {
            "anchors": "none",
            "background": "none",
        }
    if family == "detections":
        classes = scores.argmax(axis=1).astype(np.int32)
        return {"boxes": boxes, "scores": scores.max(axis=1), "classes": classes}, options
    columns = {
        "yolov8": [boxes, scores],
        "yolov5": [boxes, np.ones((len(boxes), 1), np.float32), scores],
        "end2end": [boxes, scores[:, :1], np.zeros((len(boxes), 1), np.float32)],
    }[family]
    rows = np.hstack(columns)
    return {"head": np.ascontiguousarray(rows.T if family == "yolov8" else rows)}, options


@dataclass(frozen=True)
class Family:
    """A head family as tests of every implementation call it.

    parameters: of postprocess, beside head and num_classes. make(seed): the tensor of one image, or
    its tensors by name. is_suppressed: NMS follows. has_anchors: its boxes are relative to anchors.
    """

    make: Callable[[int], Any]
    parameters: Mapping[str, Any]
    is_suppressed: bool = False
    has_anchors: bool = False

    def images(self, count: int) -> list[dict[str, npt.NDArray[Any]]]:
        """The tensors of several images."""
        made = [self.make(seed) for seed in range(count)]
        return [each if isinstance(each, dict) else {"head": each} for each in made]

    def batch(self, count: int) -> dict[str, npt.NDArray[Any]]:
        """The same, stacked."""
        images = self.images(count)
        return {name: np.stack([image[name] for image in images]) for name in images[0]}


_SIZE = {"anchors": 300, "num_classes": 7}
_SEG = {"mask_coefficients": 8, "prototype_size": (40, 48), "input_size": (160, 192)}
FAMILIES = {
    "yolov5": Family(lambda seed: yolov5_head(seed, **_SIZE), {}, is_suppressed=True),
    "yolox": Family(
        lambda seed: yolox_head(seed, size=(96, 128), num_classes=7),
        {"input_size": (96, 128)},
        is_suppressed=True,
        has_anchors=True,
    ),
    "yolov8": Family(lambda seed: yolov8_head(seed, **_SIZE), {}, is_suppressed=True),
    "yolov8_pose": Family(
        lambda seed: pose_head(seed, **_SIZE, keypoints=5),
        {"num_keypoints": 5},
        is_suppressed=True,
    ),
    "yolov8_obb": Family(lambda seed: obb_head(seed, **_SIZE), {}),
    "yolov8_seg": Family(
        lambda seed: seg_outputs(seed, **_SIZE, size=(40, 48)),
        {**_SEG, "mask_resolution": "input", "max_detections": 20},
        is_suppressed=True,
    ),
    "end2end": Family(lambda seed: end2end_head(seed, rows=50, num_classes=7), {}),
    "end2end_seg": Family(
        lambda seed: end2end_seg_outputs(seed, rows=30, num_classes=7, size=(40, 48)),
        {**_SEG, "mask_resolution": "input", "max_detections": 20},
    ),
    "end2end_pose": Family(
        lambda seed: end2end_pose_head(seed, rows=40, num_classes=7, keypoints=5),
        {"num_keypoints": 5},
    ),
    "end2end_obb": Family(lambda seed: end2end_obb_head(seed, rows=40, num_classes=7), {}),
    "rtdetr": Family(lambda seed: rtdetr_outputs(seed, queries=60, num_classes=7), {}),
    "rtdetr_seg": Family(
        lambda seed: rtdetr_seg_outputs(seed, queries=60, num_classes=7, size=(40, 48)),
        {
            "prototype_size": (40, 48),
            "input_size": (160, 192),
            "mask_resolution": "input",
            "max_detections": 20,
        },
    ),
    "ssd": Family(
        lambda seed: ssd_outputs(seed, anchors=80, columns=8),
        {"variances": (0.1, 0.1, 0.2, 0.2)},
        is_suppressed=True,
        has_anchors=True,
    ),
    "efficient_nms": Family(lambda seed: efficient_nms_outputs(4 + seed), {}),
    "detections": Family(lambda seed: detections_outputs(seed, rows=15), {}),
    "classification": Family(lambda seed: {"logits": logits(seed, num_classes=7)}, {"top_k": 3}),
}
