"""Small ONNX networks that end in finished detections, as many rows as an image has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from tests.support.onnx_heads import network

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
        parts = ["boxes", "scores", "classes"] + ["masks"] * self.more
        nodes = "single = Squeeze(image, zero)" if self.has_batch else "single = Identity(image)"
        nodes += (
            " centred = Sub(single, mean) given = Div(centred, std)"
            if self.normalizes
            else " given = Identity(single)"
        )
        nodes += (
            " brightness = ReduceMean<keepdims=0>(given) many = Mul(brightness, gain)"
            " whole = Floor(many) more = Add(whole, least) some = Clip(more, none, most)"
            " number = Cast<to=7>(some) count = Unsqueeze(number, zero)"
            " nothing = Mul(brightness, none) moved = Add(logits, nothing)"
            f" each = {'Softmax' if self.softmax else 'Sigmoid'}(moved)"
            " of_classes = Slice(each, first, end, one)"
            " scores_of_all = ReduceMax<axes=[1], keepdims=0>(of_classes)"
            " best = ArgMax<axis=1, keepdims=0>(of_classes) classes_of_all = Add(best, first)"
        )
        nodes += "".join(f" {part} = Slice({part}_of_all, zero, count, zero)" for part in parts)
        shapes = {
            "boxes": "float[K,4] boxes",
            "scores": "float[K] scores",
            "classes": "int64[K] classes",
            "masks": "float[K,1,2,2] masks",
        }
        made = [*self.order, *parts[3:]]
        side = f"{'1,' if self.has_batch else ''}3,{SIDE},{SIDE}"
        model = network(
            f"(float[{side}] image) => ({', '.join(shapes[part] for part in made)})",
            nodes,
            mean=np.float32(self.mean)[:, None, None],
            std=np.float32(STD)[:, None, None],
            boxes_of_all=self.boxes(),
            logits=self.logits(),
            masks_of_all=np.ones((ROWS, 1, 2, 2), np.float32),
            gain=np.float32(ROWS_PER_MEAN),
            least=np.float32(self.least),
            none=np.float32(0),
            most=np.float32(ROWS),
            zero=np.array([0]),
            one=np.array([1]),
            first=np.array([int(self.softmax)]),
            end=np.array([2**31]),
        )
        named = dict(zip(self.order, self.names, strict=True))
        for each in (*model.graph.output, *model.graph.node[-len(parts) :]):
            if isinstance(each, onnx.NodeProto):
                each.output[0] = named.get(each.output[0], each.output[0])
            else:
                each.name = named.get(each.name, each.name)
        helper.set_model_props(model, dict(self.metadata or {}))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, str(path))
        return path
