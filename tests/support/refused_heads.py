"""Networks whose head `endcap init` refuses, and parts of the error message."""

from __future__ import annotations

import numpy as np

from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.broken_networks import Refusals, network, shapes

_RANDOM = np.random.default_rng(40)
_NAN = np.full((7, 84), np.nan, np.float32)
HEADS: Refusals = {
    "undecoded grids": (
        shapes({"p3": ["n", 255, 8, 8], "p4": ["n", 255, 4, 4], "p5": ["n", 255, 2, 2]}),
        [],
        ["form of no head that is known", "boxes decoded"],
    ),
    "NaN for noise": (
        network(families.Network({"output0": families.Output(_NAN)})),
        [],
        ["gives NaN for noise (588 of the 588 numbers of output0)", "half precision"],
    ),
    "scores apart from objectness": (
        shapes({"conf": ["n", 252, 1], "cls": ["n", 252, 3], "bbox": ["n", 252, 4]}),
        [],
        ["but conf would not be read", "--head ssd"],
    ),
    "scores next to a box for each class": (
        network(
            families.Network(
                {
                    "boxes": families.Output(_RANDOM.uniform(0, 1, (252, 80, 4))),
                    "confs": families.Output(_RANDOM.uniform(0, 1, (252, 80))),
                }
            )
        ),
        [],
        ["yolov5 (confs [252, 5 + 75]", "but boxes would not be read", "or give --head"],
    ),
    "a grid head next to more": (
        network(
            families.Network(
                {**families.yolov8().outputs, "more": families.Output(np.ones((84, 9)))}
            )
        ),
        [],
        ["yolov8", "but more would not be read", "--head yolov8"],
    ),
    "one number": (
        network(families.Network({"age": families.Output(np.ones(1, np.float32))})),
        [],
        ["classification", "or an estimate", "--head classification", "--preset"],
    ),
    "rows whose last columns nothing tells apart": (
        network(
            families.Network({"output": families.Output(np.zeros((0, 7)), batch=False)}, batch=1)
        ),
        [],
        ["--columns", "image,box,class,score (YOLOv7)", "--num-classes", "--preset"],
    ),
    "CenterNet's maps, whose boxes can be decoded": (
        shapes({"hm": ["n", 80, 16, 16], "wh": ["n", 2, 16, 16], "reg": ["n", 2, 16, 16]}),
        [],
        ["form of no head that is known", "boxes decoded"],
    ),
    "no usual grids": (
        shapes({"output0": ["n", 7, 1000]}),
        [],
        ["look like no head", "no usual grids", "or give --head"],
    ),
    "transposed or with objectness": (
        network(odd.transposed(families.yolov8(classes=4))),
        [],
        ["may be yolov5", "--head yolov5"],
    ),
    "boxes not decoded": (
        shapes({"output0": ["n", 7, 84]}),
        [],
        ["do not cover the image", "--head yolov8"],
    ),
    "another head than said": (
        network(families.yolov8()),
        ["--head", "end2end"],
        ["do not have the form of end2end", "they fit yolov8"],
    ),
    "a description of the image": (
        network(families.classifier()),
        ["--preset", "torchvision"],
        ["may be classification", "or a description of the image", "--head classification"],
    ),
    "a description of the image, and no preset": (
        network(families.classifier()),
        [],
        [
            "needs 2 options: (1) ",
            "--head classification",
            "; (2) ",
            "--preset",
            "torchvision for any",
        ],
    ),
    "two rows of numbers": (
        shapes({"features": ["n", 512], "logits": ["n", 10]}),
        [],
        [
            "features [512]",
            "logits [10]",
            "--head classification, and which output by --num-classes",
        ],
    ),
    "a classifier that does not say how": (
        network(families.Network({"p": families.Output(np.full(5, 0.4, np.float32))})),
        ["--head", "classification", "--preset", "torchvision"],
        ["--set activation=none, sigmoid or softmax"],
    ),
    "numbers of classes, whole": (
        network(families.Network({"p": families.Output(np.arange(5.0), dtype="int64")})),
        ["--head", "classification", "--preset", "torchvision"],
        ["do not have the form of classification"],
    ),
    "TensorFlow's detector": (
        network(odd.tensorflow_detector()),
        [],
        ["tensorflow_detection", "y before x"],
    ),
    "anchors of a cell and objectness": (
        network(odd.transposed(families.yolov8(classes=4))),
        ["--head", "yolov5"],
        ["--preset"],
    ),
    "corners or centres": (
        network(odd.with_corners(families.yolov8())),
        [],
        ["may be corners as well as centres", "--head yolov8"],
    ),
    "corners or centres, of a head that is said": (
        network(odd.with_corners(families.yolov8())),
        ["--head", "yolov8"],
        ["--set box_format=xyxy or cxcywh"],
    ),
    "sizes as logarithms": (
        network(odd.undecoded(odd.transposed(families.yolov8(classes=4)))),
        ["--head", "yolov5"],
        ["do not have the form of yolov5"],
    ),
    "features of patches": (shapes({"patches": ["n", 197, 768]}), [], ["look like no head"]),
}
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
        network(families.pose()),
        [],
        ["may be yolov8_pose", "--head yolov8_pose"],
    ),
    "keypoints that nobody counts, of a head that is said": (
        network(families.pose()),
        ["--head", "yolov8_pose"],
        ["--set num_keypoints=17", "keypoint_values=2"],
    ),
    "keypoints of a task, and no number": (
        network(families.pose(metadata={**ULTRALYTICS, "task": "pose"})),
        [],
        ["--set num_keypoints=17"],
    ),
    "keypoints of another number": (
        network(families.pose()),
        ["--head", "yolov8_pose", "--set", "num_keypoints=17"],
        ["do not have the form of yolov8_pose"],
    ),
    "keypoints of no number": (
        network(families.pose()),
        ["--set", "num_keypoints=many"],
        ["num_keypoints is 'many'"],
    ),
    "YOLO26's keypoints without metadata": (
        network(end2end_rows(57)),
        [],
        ["end2end_pose", "6 + 51", "give --set num_keypoints=17"],
    ),
    "queries of unknown classes": (
        network(families.detr()),
        [],
        [
            "logits",
            "--num-classes 4",
            "DETR",
            "or 5",
            "--preset",
            "rfdetr for RF-DETR, or torchvision",
        ],
    ),
    "queries of other classes": (
        network(families.detr()),
        ["--num-classes", 9],
        ["has 5 scores for each box, and the classes are 9"],
    ),
    "RF-DETR of unknown classes": (
        network(families.rfdetr()),
        [],
        ["one of the 5 scores of labels", "--num-classes 4", "fine-tuned", "or 5"],
    ),
    "RF-DETR of other classes": (
        network(families.rfdetr(columns=91)),
        ["--num-classes", 80],
        ["has 91 scores for each box, and the classes are 80", "or 91"],
    ),
    "RT-DETR without a recipe": (
        network(families.rtdetr()),
        ["--num-classes", 4],
        ["--preset, for a network like this rtdetr"],
    ),
    "DETR without a recipe": (
        network(families.detr()),
        ["--num-classes", 4],
        ["--preset, for a network like this torchvision with --set fit=stretch"],
    ),
    "SSD without a recipe": (
        network(families.ssd()),
        ["--num-classes", 3],
        ["--preset, for a network like this ssd"],
    ),
    "offsets from unknown anchors": (
        network(families.ssd(anchors=False)),
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
        ["whether one of the 80 scores", "--num-classes 79", "or 80"],
    ),
    "joined, and said not to be": (
        network(families.joined()),
        ["--set", "joined=false"],
        ["would take logits", "leave out the --set"],
    ),
}
