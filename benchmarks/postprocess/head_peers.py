"""A whole head to detections: endcap's Postprocessor and ultralytics' non_max_suppression."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.paths import BUILD
from benchmarks.postprocess.head import NUM_CLASSES
from benchmarks.timing import Case

IOU_THRESHOLD = 0.7
MAX_CANDIDATES = 30_000
MAX_DETECTIONS = 300
# Anchor and class of every detection, best first.
Kept = list[tuple[int, int]]
Head = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class HeadTask:
    """The task of every peer."""

    score_threshold: float
    multi_label: bool
    dtype: type[np.floating[Any]] = np.float32  # of the head


TASKS: Mapping[str, HeadTask] = {
    "YOLOv8 head, score 0.25": HeadTask(0.25, multi_label=False),
    "YOLOv8 head, score 0.25, float16": HeadTask(0.25, multi_label=False, dtype=np.float16),
    "YOLOv8 head, score 0.001, multi-label": HeadTask(0.001, multi_label=True),
}


def ours(head: Head, task: HeadTask) -> tuple[Case, Kept]:
    """Return endcap on one thread: the timed call, and what it kept.

    Each call gets a fresh copy, as everybody's does, which a network would have just written.
    """
    postprocess = endcap.Postprocessor(
        "yolov8",
        NUM_CLASSES,
        score_threshold=task.score_threshold,
        iou_threshold=IOU_THRESHOLD,
        max_candidates=MAX_CANDIDATES,
        max_detections=MAX_DETECTIONS,
        multi_label=task.multi_label,
        threads=1,
    )
    found: Any = postprocess(head)
    count = int(found.num_detections[0])
    anchors, classes = found.indices[0, :count], found.class_ids[0, :count]
    kept = list(zip(anchors.tolist(), classes.tolist(), strict=True))
    return Case(run=postprocess, prepare=head.copy), kept


def ultralytics(head: Head, task: HeadTask) -> tuple[Case, Kept]:
    """Return ultralytics on one thread, with torchvision's suppression, which it prefers.

    Each call gets a fresh tensor, since the function may write into its input. A float16 one is
    converted in the call: torchvision has no suppression of float16 boxes on a CPU.
    """
    # Its settings file goes to the build folder, not into the home directory.
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    import torch
    import torchvision  # noqa: F401  its presence decides which algorithm runs
    from ultralytics.utils.nms import non_max_suppression

    torch.set_num_threads(1)
    tensor = torch.from_numpy(head)[None]

    def run(fresh: Any, *, indices: bool = False) -> Any:
        return non_max_suppression(
            fresh.float(),
            conf_thres=task.score_threshold,
            iou_thres=IOU_THRESHOLD,
            multi_label=task.multi_label,
            max_det=MAX_DETECTIONS,
            nc=NUM_CLASSES,
            max_nms=MAX_CANDIDATES,
            max_time_img=1e9,  # else a slow machine would give an empty response
            return_idxs=indices,
        )

    (rows,), (anchors,) = run(tensor.clone(), indices=True)
    kept = list(zip(anchors.tolist(), rows[:, 5].int().tolist(), strict=True))
    return Case(run=run, prepare=tensor.clone), kept
