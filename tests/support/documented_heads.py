"""Tiny networks with the heads that exporters document which no test can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.family_networks import Network, Output


@dataclass(frozen=True)
class DocumentedHead:
    """A network, how it is exported, and what `endcap init` makes of it.

    Attributes:
        write: Writes the file.
        options: What has to be given.
    """

    network: str
    exporter: str
    write: Callable[[Path], Path]
    options: tuple[str, ...]
    family: str


def flat(columns: list[int], *, count: bool = False) -> Network:
    """Rows [K, columns] without a batch dimension: x1, y1, x2, y2, score, class, image reordered.

    count: PaddleDetection's number of rows, another output.
    """
    (output,) = families.end2end().outputs.values()
    rows = np.hstack([output.base, np.zeros((len(output.base), 1), np.float32)])
    outputs = {"out": Output(np.ascontiguousarray(rows[:, columns]), batch=False)}
    if count:
        outputs["num"] = Output(np.array([30], np.float32), dtype="int32", batch=False)
    return Network(outputs, batch=1)


def with_input(network: Network, name: str, element: int, path: Path) -> Path:
    """The network's file with a second input [1, 2], of which nothing depends."""
    model = onnx.load(network.write(path))
    model.graph.input.append(helper.make_tensor_value_info(name, element, [1, 2]))
    onnx.save(model, str(path))
    return path


def pp_yoloe(path: Path) -> Path:
    network = flat([5, 4, 0, 1, 2, 3], count=True)
    return with_input(network, "scale_factor", TensorProto.FLOAT, path)


def pp_yoloe_raw(path: Path) -> Path:
    network = families.decoded()
    outputs = {
        "boxes": network.outputs["boxes"],
        "scores": odd.transposed(network).outputs["scores"],
    }
    return Network(outputs).write(path)


def yolo_nas_batches(path: Path) -> Path:
    given = families.efficient_nms(ids="int64").outputs
    names = {
        "num_dets": "num_predictions",
        "det_boxes": "pred_boxes",
        "det_scores": "pred_scores",
        "det_classes": "pred_classes",
    }
    return Network({names[name]: output for name, output in given.items()}).write(path)


def deployed_rtdetr(path: Path) -> Path:
    """labels, boxes and scores [N, Q] of the best queries, and the images' sizes as an input."""
    given = families.efficient_nms(ids="int64").outputs
    outputs = {
        "labels": given["det_classes"],
        "boxes": given["det_boxes"],
        "scores": given["det_scores"],
    }
    return with_input(Network(outputs, batch=1), "orig_target_sizes", TensorProto.INT64, path)


_YOLO: tuple[Any, ...] = ("--preset", "ultralytics")
_SIX, _FIVE = ("--num-classes", "6"), ("--num-classes", "5")
_PADDLE = ("--preset", "rtdetr", "--set", "interpolation=bicubic", "--set", "antialias=false")
HEADS = [
    DocumentedHead("YOLOX", "its own", families.yolox().write, (), "yolox"),
    DocumentedHead(
        "YOLOv7",
        "its own, NMS inside, for ONNX Runtime",
        flat([6, 0, 1, 2, 3, 5, 4]).write,
        (*_FIVE, *_YOLO),
        "end2end",
    ),
    DocumentedHead(
        "YOLO-NAS",
        "its own, format flat",
        flat([6, 0, 1, 2, 3, 4, 5]).write,
        (*_FIVE, *_YOLO),
        "end2end",
    ),
    DocumentedHead(
        "YOLO-NAS", "its own, format batch", yolo_nas_batches, (*_SIX, *_YOLO), "efficient_nms"
    ),
    DocumentedHead("YOLO-NAS", "its own, without NMS", families.decoded().write, _YOLO, "ssd"),
    DocumentedHead("PP-YOLOE", "Paddle2ONNX", pp_yoloe, (*_FIVE, *_PADDLE), "end2end"),
    DocumentedHead("PP-YOLOE", "Paddle2ONNX, without NMS", pp_yoloe_raw, _PADDLE, "ssd"),
    DocumentedHead(
        "MMDetection",
        "MMDeploy",
        families.dets_and_labels().write,
        (*_FIVE, "--preset", "rtdetr"),
        "end2end",
    ),
    DocumentedHead(
        "MMDetection",
        "its own, with labels of float32, -1 in rows that fill up",
        families.dets_and_labels(ids="float32", used=20).write,
        (*_FIVE, "--preset", "rtdetr"),
        "end2end",
    ),
    DocumentedHead("YOLOv4", "pytorch-YOLOv4", families.yolov4().write, (), "ssd"),
    DocumentedHead(
        "RT-DETR, D-FINE",
        "their own",
        deployed_rtdetr,
        (*_SIX, "--preset", "rtdetr"),
        "detections",
    ),
]
