"""Small ONNX networks that end in a head of each family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from tests.support.onnx_heads import declare, network

Floats = npt.NDArray[np.float32]
WEIGHTS = np.array([0.08, -0.05, 0.03], np.float32)
STRIDES = (8, 16, 32)
_ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


@dataclass(frozen=True)
class Output:
    """One output of one image: base + change * f, then softmax over the last axis where `softmax`.

    batch: whether it has a batch dimension. declared: what the file says of that, else the truth.
    for_one: whether it is reshaped to the shape for one image, and so fails with more.
    """

    base: Floats
    change: Floats | float = 0.0
    dtype: str = "float32"
    softmax: bool = False
    batch: bool = True
    declared: int | None = None
    for_one: bool = False

    def evaluate(self, feature: float) -> Floats:
        """The outputs for an image of that feature, in float32."""
        values = self.base + np.float32(feature) * np.asarray(self.change, np.float32)
        if self.softmax:
            powers = np.exp(values - values.max())
            values = powers / powers.sum()
        return np.asarray(values, np.float32)


@dataclass(frozen=True)
class Network:
    """size: height and width. batch: a number, or a text for any."""

    outputs: Mapping[str, Output]
    size: tuple[Any, Any] = (64, 64)
    batch: int | str = "batch"
    dtype: str = "float32"
    layout: str = "nchw"
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def input_shape(self) -> list[Any]:
        if self.layout == "nchw":
            return [self.batch, 3, *self.size]
        return [self.batch, *self.size, 3]

    def feature(self, tensor: npt.NDArray[Any]) -> float:
        """f of one image as the network gets it."""
        axes = (1, 2) if self.layout == "nchw" else (0, 1)
        return float(tensor.astype(np.float32).mean(axis=axes) @ self.weights)

    @property
    def weights(self) -> Floats:
        """A network that takes bytes normalises by itself."""
        return WEIGHTS / np.float32(255) if self.dtype == "uint8" else WEIGHTS

    def expected_outputs(self, tensor: npt.NDArray[Any]) -> dict[str, Floats]:
        """All outputs for one image."""
        feature = self.feature(tensor)
        return {name: output.evaluate(feature) for name, output in self.outputs.items()}

    def write(self, path: Path) -> Path:
        """Write the ONNX file."""
        axes = [2, 3] if self.layout == "nchw" else [1, 2]
        nodes = f"numbers = Cast<to=1>(images) means = ReduceMean<axes={axes}, keepdims=0>(numbers)"
        nodes += " feature = MatMul(means, weights)"
        constants: dict[str, Any] = {"weights": self.weights[:, None], "first": np.array([0])}
        outputs, names = [], {}
        for number, (name, output) in enumerate(self.outputs.items()):
            key = f"o{number}"
            base = np.asarray(output.base, np.float32)
            change = np.broadcast_to(np.asarray(output.change, np.float32), base.shape)
            constants[f"{key}_base"] = base[None]
            constants[f"{key}_change"] = np.ascontiguousarray(change[None])
            constants[f"{key}_rank"] = np.array([-1, *[1] * base.ndim])
            steps = [f"Reshape({{}}, {key}_rank)", f"Mul({{}}, {key}_change)"]
            steps.append(f"Add({{}}, {key}_base)")
            if output.softmax:
                steps.append("Softmax<axis=-1>({})")
            if output.for_one:
                constants[f"{key}_one"] = np.array([1, *base.shape])
                steps.append(f"Reshape({{}}, {key}_one)")
            if not output.batch:
                steps.append("Squeeze({}, first)")
            element = _ELEMENTS[output.dtype]
            steps.append(f"Cast<to={element}>({{}})")
            last = "feature"
            for place, step in enumerate(steps):
                nodes += f" {key}_{place} = {step.format(last)}"
                last = f"{key}_{place}"
            first = self.batch if output.declared is None else output.declared
            shape = [first, *base.shape] if output.batch else [*base.shape]
            outputs.append(declare(last, shape, element))
            names[last] = name
        image = declare("images", self.input_shape, _ELEMENTS[self.dtype])
        model = network(f"({image}) => ({', '.join(outputs)})", nodes, **constants)
        for node in model.graph.node:  # names that ONNX's text format does not have
            node.output[0] = names.get(node.output[0], node.output[0])
        for made in model.graph.output:
            made.name = names[made.name]
        helper.set_model_props(model, dict(self.metadata))
        onnx.checker.check_model(model)
        onnx.save(model, str(path))
        return path


def grid_rows(
    seed: int, *, classes: int, size: tuple[int, int] = (64, 64), anchors: int = 1
) -> tuple[Floats, Floats]:
    """Boxes cxcywh [A, 4] around the cells of all grids, and scores [A, classes], few of them high.

    Scores are a multiple of 1/500 and unlike each other among the high ones, so that f moves all of
    them alike and changes no order.
    """
    random = np.random.default_rng(seed)
    centers = [
        ((x + 0.5) * stride, (y + 0.5) * stride)
        for stride in STRIDES
        for y in range(-(-size[0] // stride))
        for x in range(-(-size[1] // stride))
        for _ in range(anchors)
    ]
    boxes = np.hstack([np.array(centers), random.uniform(6, 30, (len(centers), 2))])
    scores = random.integers(0, 40, (len(centers), classes)) / 500
    high = random.choice(len(centers), 24, replace=False)
    scores[high, random.integers(0, classes, 24)] = (200 + random.permutation(250)[:24]) / 500
    return boxes.astype(np.float32), scores.astype(np.float32)


def yolov8(seed: int = 0, *, classes: int = 3, **options: Any) -> Network:
    boxes, scores = grid_rows(seed, classes=classes)
    base = np.ascontiguousarray(np.hstack([boxes, scores]).T)
    change = np.zeros_like(base)
    change[4:] = 1
    return Network({"output0": Output(base, change)}, **options)


def yolov5(seed: int = 1, *, classes: int = 4, **options: Any) -> Network:
    boxes, scores = grid_rows(seed, classes=classes, anchors=3)
    objectness = np.full((len(boxes), 1), 0.9, np.float32)
    base = np.hstack([boxes, objectness, scores])
    change = np.zeros_like(base)
    change[:, 5:] = 1
    return Network({"output": Output(base, change)}, **options)


def yolox(seed: int = 8, *, classes: int = 4, **options: Any) -> Network:
    """YOLOX as its exporter writes it: boxes relative to the cells, scores from 0 to 1."""
    boxes, scores = grid_rows(seed, classes=classes)
    cells = np.array([stride for stride in STRIDES for _ in range((64 // stride) ** 2)])[:, None]
    centres = boxes[:, :2] / cells
    relative = np.hstack([centres - np.floor(centres), np.log(boxes[:, 2:] / cells)])
    base = np.hstack([relative, np.full((len(boxes), 1), 0.9), scores]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 5:] = 1
    return Network({"output": Output(base, change)}, **options)


def end2end(seed: int = 2, *, rows: int = 30, classes: int = 5, **options: Any) -> Network:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 40, (rows, 2))
    boxes = np.hstack([corners, corners + random.uniform(4, 24, (rows, 2))])
    scores = np.linspace(0.9, 0.05, rows)[:, None]
    class_ids = random.integers(0, classes, (rows, 1))
    base = np.hstack([boxes, scores, class_ids]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 4] = 1
    return Network({"output0": Output(base, change)}, **options)


def efficient_nms(seed: int = 3, *, kept: int = 7, ids: str = "int32", **options: Any) -> Network:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 40, (20, 2))
    boxes = np.hstack([corners, corners + random.uniform(4, 24, (20, 2))]).astype(np.float32)
    scores = np.linspace(0.95, 0.3, 20).astype(np.float32)
    class_ids = random.integers(0, 6, 20).astype(np.float32)
    outputs = {
        "num_dets": Output(np.array([kept], np.float32), dtype=ids),
        "det_boxes": Output(boxes),
        "det_scores": Output(scores, 1.0),
        "det_classes": Output(class_ids, dtype=ids),
    }
    return Network(outputs, **options)


def dets_and_labels(
    seed: int = 13, *, ids: str = "int64", used: int = 30, **options: Any
) -> Network:
    """dets [K, 5], boxes with scores, and labels [K]; -1 and zeros in the rows behind those used.

    As MMDetection's exporters give them.
    """
    (output,) = end2end(seed).outputs.values()
    rows = output.base.copy()
    rows[used:] = [0, 0, 0, 0, 0, -1]
    change = np.zeros((len(rows), 5), np.float32)
    change[:used, 4] = 1
    dets = Output(np.ascontiguousarray(rows[:, :5]), change)
    return Network({"dets": dets, "labels": Output(rows[:, 5].copy(), dtype=ids)}, **options)


def classifier(
    seed: int = 4, *, classes: int = 7, softmax: bool = False, **options: Any
) -> Network:
    random = np.random.default_rng(seed)
    base = (random.permutation(classes) / 2).astype(np.float32)
    change = random.uniform(-1, 1, classes).astype(np.float32)
    return Network({"logits": Output(base, change, softmax=softmax)}, **options)


MASKS, PROTOTYPE_SIDE = 32, 16
KEYPOINTS = 5


def _network(
    boxes: Floats, scores: Floats, more: Floats, others: dict[str, Output], **options: Any
) -> Network:
    """The head [4 + C + E, A], of which the scores follow the image."""
    base = np.ascontiguousarray(np.hstack([boxes, scores, more]).T.astype(np.float32))
    change = np.zeros_like(base)
    change[4 : 4 + scores.shape[1]] = 1
    return Network({"output0": Output(base, change), **others}, **options)


def seg(seed: int = 10, *, classes: int = 3, **options: Any) -> Network:
    """Prototypes [32, 16, 16] are waves that make blobs of some pixels."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    weights = random.normal(0, 1, (len(boxes), MASKS))
    rows, columns = np.mgrid[:PROTOTYPE_SIDE, :PROTOTYPE_SIDE] / 4
    phases = random.uniform(0, 6, (3, MASKS))[..., None, None]
    waves = np.sin(rows * (1 + phases[0] / 6) + phases[1]) * np.cos(columns + phases[2])
    prototypes = {"output1": Output(waves.astype(np.float32))}
    return _network(boxes, scores, weights, prototypes, **options)


def pose(seed: int = 11, *, classes: int = 2, values: int = 3, **options: Any) -> Network:
    """Keypoints all over the image, with a visibility from 0 to 1 where `values` is 3."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    points = random.uniform(-4, 68, (len(boxes), KEYPOINTS, values))
    points[..., 2:] = random.uniform(0, 1, points[..., 2:].shape)
    return _network(boxes, scores, points.reshape(len(boxes), -1), {}, **options)


def semantic(
    seed: int = 13, *, classes: int = 5, name: str = "logits", ids: str = "", **options: Any
) -> Network:
    """Logits [C, 16, 16] for 64x64; with `ids`, a data type, class ids of each pixel instead."""
    random = np.random.default_rng(seed)
    if ids:
        values = random.integers(0, classes, (64, 64)).astype(np.float32)
        return Network({name: Output(values, dtype=ids)}, **options)
    base, change = random.normal(0, 2, (2, classes, 16, 16)).astype(np.float32)
    return Network({name: Output(base, change * np.float32(20))}, **options)


def obb(seed: int = 12, *, classes: int = 3, **options: Any) -> Network:
    """Angles from -45 to 135 degrees, as Ultralytics' networks have them."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    angles = random.uniform(-np.pi / 4, 3 * np.pi / 4, (len(boxes), 1))
    return _network(boxes, scores, angles, {}, **options)


SIDE = 64


def _logits(random: np.random.Generator, rows: int, columns: int) -> Floats:
    """Mostly far below 0, a tenth of them around 1; no two are nearer than f could tell apart."""
    logits = random.permutation(rows * columns).reshape(rows, columns) / 50
    logits = -logits - 2
    high = random.choice(rows, rows // 4, replace=False)
    logits[high, random.integers(0, columns, len(high))] = random.permutation(len(high)) / 8 - 0.9
    return logits.astype(np.float32)


def _fractions(random: np.random.Generator, rows: int) -> Floats:
    """cx, cy, w, h inside the image."""
    sizes = random.uniform(0.1, 0.4, (rows, 2))
    centres = random.uniform(sizes / 2, 1 - sizes / 2)
    return np.hstack([centres, sizes]).astype(np.float32)


def rtdetr(seed: int = 20, *, queries: int = 60, classes: int = 4, **options: Any) -> Network:
    """logits [Q, C] and pred_boxes [Q, 4], as transformers' RT-DETR gives them."""
    random = np.random.default_rng(seed)
    logits = Output(_logits(random, queries, classes), 1.0)
    return Network({"logits": logits, "pred_boxes": Output(_fractions(random, queries))}, **options)


def rfdetr(
    seed: int = 25,
    *,
    queries: int = 60,
    columns: int = 5,
    masks: tuple[int, int] | None = None,
    **options: Any,
) -> Network:
    """RF-DETR's dets [Q, 4], of which some leave the image, labels [Q, columns], maybe masks."""
    random = np.random.default_rng(seed)
    logits = _logits(random, queries, columns)
    boxes = _fractions(random, queries)
    boxes[::4, :2] = (1.03, 0.5)
    logits[::8, 1] = 2
    outputs = {"dets": Output(boxes), "labels": Output(logits, 1.0)}
    if masks is not None:
        rows, places = np.mgrid[: masks[0], : masks[1]] / 3
        phases = random.uniform(0, 6, (2, queries))[..., None, None]
        outputs["masks"] = Output(np.sin(rows + phases[0]) * np.cos(places + phases[1]) - 0.2)
    return Network(outputs, **options)


def detr(seed: int = 21, *, queries: int = 60, classes: int = 4, **options: Any) -> Network:
    """logits [Q, C + 1], the last one for no object, and pred_boxes [Q, 4], as DETR's."""
    random = np.random.default_rng(seed)
    logits = np.hstack([_logits(random, queries, classes), np.full((queries, 1), -0.5)])
    change = np.ones_like(logits, np.float32)
    change[:, -1] = 0
    scores = Output(logits.astype(np.float32), change)
    return Network({"logits": scores, "pred_boxes": Output(_fractions(random, queries))}, **options)


def joined(
    seed: int = 22, *, queries: int = 60, classes: int = 4, raw: bool = False, **options: Any
) -> Network:
    """[Q, 4 + C], boxes first; scores from 0 to 1, or logits where they are raw."""
    random = np.random.default_rng(seed)
    logits = _logits(random, queries, classes)
    scores = logits if raw else 1 / (1 + np.exp(-logits.astype(np.float64)))
    base = np.hstack([_fractions(random, queries), scores]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 4:] = base[:, 4:] if not raw else 1
    return Network({"output0": Output(base, change)}, **options)


def grid_anchors() -> Floats:
    """cx, cy, w, h in pixels of the anchors of `8:16x16,24x12;16:32x32`."""
    sizes = {8: [(16, 16), (24, 12)], 16: [(32, 32)]}
    rows = [
        ((column + 0.5) * stride, (row + 0.5) * stride, *size)
        for stride, each in sizes.items()
        for row in range(SIDE // stride)
        for column in range(SIDE // stride)
        for size in each
    ]
    return np.array(rows, np.float32)


def _background_first(random: np.random.Generator, rows: int, classes: int) -> Floats:
    """Scores [A, 1 + C] before a softmax: for no object nearly everywhere."""
    scores = random.normal(0, 0.5, (rows, 1 + classes))
    scores[:, 0] = 4
    high = random.choice(rows, rows // 12, replace=False)
    scores[high, random.integers(1, 1 + classes, len(high))] = 4 + random.permutation(len(high)) / 8
    return scores.astype(np.float32)


def ssd(seed: int = 23, *, classes: int = 3, anchors: bool = True, **options: Any) -> Network:
    """Offsets and scores [A, 1 + C] before a softmax; anchors as corners where they are given."""
    random = np.random.default_rng(seed)
    places = grid_anchors()
    scores = _background_first(random, len(places), classes)
    change = np.ones_like(scores)
    change[:, 0] = 0
    outputs = {
        "boxes": Output(random.normal(0, 1, (len(places), 4)).astype(np.float32)),
        "scores": Output(scores, change),
    }
    if anchors:
        half = places[:, 2:] / 2
        outputs["anchors"] = Output(np.hstack([places[:, :2] - half, places[:, :2] + half]))
    return Network(outputs, **options)


def decoded(seed: int = 24, *, classes: int = 3, **options: Any) -> Network:
    """Corners in pixels, and scores [A, C] from 0 to 1."""
    random = np.random.default_rng(seed)
    places = grid_anchors()
    half = places[:, 2:] / 2 * random.uniform(0.7, 1.3, (len(places), 2))
    centres = places[:, :2] + random.uniform(-2, 2, (len(places), 2))
    boxes = np.hstack([centres - half, centres + half]).astype(np.float32)
    scores = random.integers(0, 40, (len(places), classes)) / 500
    high = random.choice(len(places), 30, replace=False)
    scores[high, random.integers(0, classes, 30)] = (200 + random.permutation(250)[:30]) / 500
    outputs = {"boxes": Output(boxes), "scores": Output(scores.astype(np.float32), 1.0)}
    return Network(outputs, **options)


def yolov4(seed: int = 25, *, classes: int = 3, **options: Any) -> Network:
    """boxes [N, 1, 4], corners in fractions of the image, and confs [N, C] from 0 to 1.

    Three boxes for each cell; confs are objectness times class score already.
    """
    boxes, scores = grid_rows(seed, classes=classes, anchors=3)
    half = boxes[:, 2:] / 2
    corners = np.hstack([boxes[:, :2] - half, boxes[:, :2] + half]) / SIDE
    outputs = {"boxes": Output(corners[:, None].astype(np.float32)), "confs": Output(scores, 1.0)}
    return Network(outputs, **options)
