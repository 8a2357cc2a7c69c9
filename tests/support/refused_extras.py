"""Refusals of endcap init: heads with extras, of queries, and with anchors."""

from __future__ import annotations

import extra_networks as extras
import family_networks as families
import numpy as np
import odd_networks as odd
import pair_networks as pairs
from broken_networks import Refusals, network, shapes

ULTRALYTICS = {"author": "Ultralytics", "stride": "32"}


def end2end_rows(columns: int) -> families.Network:
    """Rows [30, columns] of suppression inside, with more behind the class."""
    (output,) = families.end2end().outputs.values()
    more = np.linspace(-1, 60, 30 * (columns - 6), dtype=np.float32).reshape(30, -1)
    return families.Network({"output0": families.Output(np.hstack([output.base, more]))})


EXTRAS: Refusals = {
    "masks without prototypes": (
        shapes({"output0": ["n", 116, 84]}, metadata={"task": "segment"}),
        [],
        ["yolov8_seg", "none of its outputs has the form of prototypes"],
    ),
    "masks of yolov5": (
        network(odd.with_masks(families.yolov5(classes=36))),
        [],
        ["yolov5_seg", "does not read"],
    ),
    "keypoints that nobody counts": (
        network(extras.pose()),
        [],
        ["may be yolov8_pose", "--head yolov8_pose"],
    ),
    "keypoints that nobody counts, of a head that is said": (
        network(extras.pose()),
        ["--head", "yolov8_pose"],
        ["--set num_keypoints=17", "keypoint_values=2"],
    ),
    "keypoints of a task, and no number": (
        network(extras.pose(metadata={**ULTRALYTICS, "task": "pose"})),
        [],
        ["--set num_keypoints=17"],
    ),
    "keypoints of another number": (
        network(extras.pose()),
        ["--head", "yolov8_pose", "--set", "num_keypoints=17"],
        ["do not have the form of yolov8_pose"],
    ),
    "keypoints of no number": (
        network(extras.pose()),
        ["--set", "num_keypoints=many"],
        ["num_keypoints is 'many'"],
    ),
    "YOLO26's masks": (
        network(
            odd.with_masks(
                families.Network(
                    end2end_rows(38).outputs,
                    metadata={**ULTRALYTICS, "task": "segment", "end2end": "True"},
                )
            )
        ),
        [],
        ["end2end_seg", "does not read", "without its end-to-end branch"],
    ),
    "YOLO26's keypoints": (
        network(
            families.Network(
                end2end_rows(57).outputs,
                metadata={**ULTRALYTICS, "task": "pose", "end2end": "True"},
            )
        ),
        [],
        ["end2end_pose", "does not read", "yolov8_pose, which is read"],
    ),
    "YOLO26's angles without metadata": (
        network(end2end_rows(7)),
        [],
        ["end2end_obb", "does not read"],
    ),
    "YOLO26's keypoints without metadata": (
        network(end2end_rows(57)),
        [],
        ["end2end_with_more", "6 + 51", "does not read"],
    ),
    "queries of unknown classes": (
        network(pairs.detr()),
        [],
        ["logits", "--num-classes 4", "DETR", "or 5"],
    ),
    "queries of other classes": (
        network(pairs.detr()),
        ["--num-classes", 9],
        ["has 5 scores for each box, and the classes are 9"],
    ),
    "RT-DETR without a recipe": (
        network(pairs.rtdetr()),
        ["--num-classes", 4],
        ["--preset, for a network like this rtdetr"],
    ),
    "DETR without a recipe": (
        network(pairs.detr()),
        ["--num-classes", 4],
        ["--preset, for a network like this torchvision with --set fit=stretch"],
    ),
    "SSD without a recipe": (
        network(pairs.ssd()),
        ["--num-classes", 3],
        ["--preset, for a network like this ssd"],
    ),
    "offsets from unknown anchors": (
        network(pairs.ssd(anchors=False)),
        ["--num-classes", 3, "--preset", "ssd"],
        ["offsets from anchors", "--set anchors=grid", "8:16x16,32x32;16:64x64"],
    ),
    "a score for no object somewhere": (
        shapes({"b": ["n", 8400, 4], "s": ["n", 8400, 81]}),
        ["--num-classes", 80, "--preset", "ssd"],
        ["which of the 81 scores", "--set background=first or last"],
    ),
    "boxes and scores the other way round": (
        shapes({"boxes": ["n", 4, 84], "scores": ["n", 80, 84]}),
        [],
        ["ssd_transposed", "the other way round", "does not read"],
    ),
    "joined, and said not to be": (
        network(pairs.joined()),
        ["--set", "joined=false"],
        ["would take logits", "leave out what was said"],
    ),
}
