"""Small ONNX networks that end in finished detections, as many rows as an image has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]
SIDE = 64
ROWS = 12
MEAN, STD = (0.4, 0.5, 0.6), (0.25, 0.25, 0.25)
ROWS_PER_MEAN = 20  # rows that a mean of the normalised image by 1 brings


@dataclass(frozen=True)
class Finished:
    """torchvision's detectors in small: normalisation, scores, and rows that an image decides.

    The number of rows is that of `least` and more the brighter the image is.

    Attributes:
        names: Of boxes, scores and classes, in the order of the outputs.
        order: Which of the three comes first, second and third.
        softmax: Over a score for no object and the classes; else a sigmoid over the classes.
        has_batch: Whether the input is a batch of one image, or the image.
        more: Another output, masks [K, 1, 2, 2].
    """

    names: Sequence[str] = ("1", "2", "3")
    order: Sequence[str] = ("boxes", "scores", "classes")
    classes: int = 3
    softmax: bool = True
    has_batch: bool = False
    normalizes: bool = True
    mean: Sequence[float] = MEAN
    least: int = 0
    more: bool = False
    metadata: Mapping[str, str] | None = None

    def boxes(self) -> Floats:
        """Corners in pixels of the input."""
        random = np.random.default_rng(30)
        corners = random.uniform(0, 40, (ROWS, 2))
        return np.hstack([corners, corners + random.uniform(4, 24, (ROWS, 2))]).astype(np.float32)

    def logits(self) -> Floats:
        """Of all rows, the best first; a row's greatest is that of a class."""
        random = np.random.default_rng(31)
        logits = random.uniform(-3, -2, (ROWS, self.classes + self.softmax))
        columns = random.integers(self.softmax, logits.shape[1], ROWS)
        logits[np.arange(ROWS), columns] = np.linspace(2, 0, ROWS)
        return logits.astype(np.float32)

    def expected(self, tensor: Floats) -> dict[str, npt.NDArray[Any]]:
        """Boxes, scores and the network's class ids for an image [3, H, W] as it gets it."""
        mean, std = np.float32(self.mean)[:, None, None], np.float32(STD)[:, None, None]
        brightness = ((tensor - mean) / std if self.normalizes else tensor).mean(dtype=np.float64)
        count = int(np.clip(np.floor(brightness * ROWS_PER_MEAN) + self.least, 0, ROWS))
        logits = self.logits()
        powers = np.exp(logits)
        scores = (
            powers / powers.sum(axis=1, keepdims=True) if self.softmax else 1 / (1 + 1 / powers)
        )
        scores = scores[:, int(self.softmax) :]
        classes = scores.argmax(axis=1) + int(self.softmax)
        return {
            "boxes": self.boxes()[:count],
            "scores": scores.max(axis=1)[:count],
            "classes": classes[:count],
        }

    def write(self, path: Path) -> Path:
        """Write the ONNX file."""
        make = helper.make_node
        first = int(self.softmax)
        constants = {
            "mean": np.float32(self.mean)[:, None, None],
            "std": np.float32(STD)[:, None, None],
            "boxes_of_all": self.boxes(),
            "logits": self.logits(),
            "masks_of_all": np.ones((ROWS, 1, 2, 2), np.float32),
            "gain": np.float32(ROWS_PER_MEAN),
            "least": np.float32(self.least),
            "none": np.float32(0),
            "most": np.float32(ROWS),
            "zero": np.array([0]),
            "one": np.array([1]),
            "first": np.array([first]),
            "end": np.array([2**31]),
            "first_class": np.array(first),
        }
        nodes = [make("Squeeze", ["image", "zero"], ["single"])] if self.has_batch else []
        last = "single" if self.has_batch else "image"
        if self.normalizes:
            nodes += [
                make("Sub", [last, "mean"], ["centred"]),
                make("Div", ["centred", "std"], ["normalized"]),
            ]
            last = "normalized"
        nodes += [
            make("ReduceMean", [last], ["brightness"], keepdims=0),
            make("Mul", ["brightness", "gain"], ["many"]),
            make("Floor", ["many"], ["whole"]),
            make("Add", ["whole", "least"], ["more"]),
            make("Clip", ["more", "none", "most"], ["some"]),
            make("Cast", ["some"], ["number"], to=TensorProto.INT64),
            make("Unsqueeze", ["number", "zero"], ["count"]),
            make("Mul", ["brightness", "none"], ["nothing"]),
            make("Add", ["logits", "nothing"], ["moved"]),
            make("Softmax" if self.softmax else "Sigmoid", ["moved"], ["each"]),
            make("Slice", ["each", "first", "end", "one"], ["of_classes"]),
            make("ReduceMax", ["of_classes"], ["scores_of_all"], axes=[1], keepdims=0),
            make("ArgMax", ["of_classes"], ["best"], axis=1, keepdims=0),
            make("Add", ["best", "first_class"], ["classes_of_all"]),
        ]
        named = dict(zip(self.order, self.names, strict=True))
        for part, name in {**named, **({"masks": "masks"} if self.more else {})}.items():
            nodes.append(make("Slice", [f"{part}_of_all", "zero", "count", "zero"], [name]))
        shapes = {"boxes": ["K", 4], "scores": ["K"], "classes": ["K"], "masks": ["K", 1, 2, 2]}
        outputs = [
            helper.make_tensor_value_info(
                name,
                TensorProto.INT64 if part == "classes" else TensorProto.FLOAT,
                shapes[part],
            )
            for part, name in {**named, **({"masks": "masks"} if self.more else {})}.items()
        ]
        shape = [3, SIDE, SIDE]
        image = helper.make_tensor_value_info(
            "image", TensorProto.FLOAT, [1, *shape] if self.has_batch else shape
        )
        initializers = [
            numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
        ]
        graph = helper.make_graph(nodes, "finished", [image], outputs, initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, dict(self.metadata or {}))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, str(path))
        return path
