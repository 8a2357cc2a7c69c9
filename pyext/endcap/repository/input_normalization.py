"""Normalisation by which a network begins, and what is left of a preset's for preprocess to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import import_onnx
from endcap.repository.onnx_file import OnnxFile, walk_nodes

NAMES = ("scale", "mean", "std")  # the parameters of preprocess that normalise
RAW_PIXELS = {"scale": "1", "mean": "0,0,0", "std": "1,1,1"}
_WHITE = 255.0
_OPSET, _OPSET_OF_ATTRIBUTES = 17, 11  # of operators whose axes are inputs, and attributes
_MAX_OPERATORS = 64
# In 8-bit steps at black and white: division by 128 for 127.5 or 256 for 255, constants of float16.
_TOLERANCE_STEPS = 1.5
_MIN_DIVISOR_OF_BYTES = 16.0
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "BatchNormalization")
# These move numbers and change none of them.
_REARRANGING = (
    *("Gather", "Identity", "SequenceAt", "Slice", "Split", "SplitToSequence", "Squeeze"),
    *("Transpose", "Unsqueeze"),
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Normalization:
    """What a network does to each channel first: (x - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    operators: tuple[str, ...] = field(default=(), compare=False)  # that do it, in their order

    def __str__(self) -> str:
        """Return the formula, with one number where the channels have the same."""
        return _formula("x", self.mean, self.std)

    @property
    def takes_bytes(self) -> bool:
        """Whether it is of pixels from 0 to 255, not from 0 to 1."""
        largest = max(map(abs, self.mean))
        return largest > 1 or min(map(abs, self.std)) >= _MIN_DIVISOR_OF_BYTES

    @property
    def has_mean(self) -> bool:
        """Whether it takes something away from each channel, as a whole normalisation does."""
        return all(self.mean)

    @property
    def whole(self) -> dict[str, str]:
        """The parameters of preprocess that would do all of it, beginning with the pixels."""
        scale = "1" if self.takes_bytes else repr(1 / _WHITE)
        mean, std = (",".join(map(repr, _three(each))) for each in (self.mean, self.std))
        return {"scale": scale, "mean": mean, "std": std}

    def undo(self, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what a network is given so that it gets `tensor` [H, W, C] behind this."""
        return np.asarray(tensor * self.std + self.mean, np.float32)

    def complement(
        self, wanted: Mapping[str, str], *, is_integer: bool = False
    ) -> dict[str, str] | None:
        """Return scale, mean and std with which preprocess and this together do what is wanted.

        The network does the last steps of (x * scale - mean) / std, preprocess those before, and
        none before whole numbers; None where the network does something else.
        """
        scale, mean, _ = _numbers(wanted)
        candidates = [RAW_PIXELS]
        if not is_integer:
            candidates += [
                {**RAW_PIXELS, "scale": repr(1 / _WHITE)},
                {**RAW_PIXELS, "scale": repr(scale)},
                {**RAW_PIXELS, "scale": repr(scale), "mean": ",".join(map(repr, mean))},
                {**RAW_PIXELS, "mean": ",".join(repr(value / scale) for value in mean)},
            ]
        target = _apply(wanted)
        step = np.abs(target[1] - target[0]) / _WHITE
        for each in candidates:
            difference = np.abs(np.subtract(self.behind(each), target)) / step
            if (difference <= _TOLERANCE_STEPS).all():
                return each
        return None

    def behind(self, given: Mapping[str, str]) -> list[Floats]:
        """Return what black and white become, by preprocess with these parameters and by this."""
        return [(each - _three(self.mean)) / _three(self.std) for each in _apply(given)]


def describe(parameters: Mapping[str, str]) -> str:
    """Return the formula of the parameters scale, mean and std."""
    scale, mean, std = _numbers(parameters)
    return _formula("x" if scale == 1 else f"x / {1 / scale:.6g}", mean, std)


def _formula(pixel: str, mean: Sequence[float] | Floats, std: Sequence[float] | Floats) -> str:
    dividend = f"({pixel} - {_short(mean)})" if any(mean) else pixel
    return dividend if set(std) == {1.0} else f"{dividend} / {_short(std)}"


def _short(values: Sequence[float] | Floats) -> str:
    texts = [f"{value:.6g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"


def _three(values: Sequence[float]) -> Floats:
    return np.array(values if len(values) == 3 else [values[0]] * 3)


def _numbers(parameters: Mapping[str, str]) -> tuple[float, Floats, Floats]:
    mean, std = (_three([float(v) for v in parameters[n].split(",")]) for n in NAMES[1:])
    return float(parameters["scale"]), mean, std


def _apply(parameters: Mapping[str, str]) -> list[Floats]:
    """Return what preprocess makes of black and white."""
    scale, mean, std = _numbers(parameters)
    return [(x * scale - mean) / std for x in (0.0, _WHITE)]


def read_normalization(network: OnnxFile) -> Normalization | None:
    """Return the normalisation by which a network of one image input begins, else None."""
    names = [spec.name for spec in network.inputs if len(spec.dims) in (3, 4)]
    return find_normalization(network.model.graph, names[0]) if len(names) == 1 else None


def find_normalization(graph: Any, tensor: str) -> Normalization | None:
    """Return the normalisation by which a graph begins; None where it has none.

    The operators between the image and the first one that does something else than to multiply or
    add constants are run on a black image and on one with each channel 1: slope and offset of each
    channel are what these become. The image is [N, C, H, W], [N, H, W, C], or the same without N.
    """
    numpy_type: Any = import_onnx("onnx.helper").tensor_dtype_to_np_dtype
    kinds: list[str] = []
    found = None
    with contextlib.suppress(Exception):  # operators without what they need, which nothing loads
        (image,) = (each.type.tensor_type for each in graph.input if each.name == tensor)
        images = _make_images([dim.dim_value for dim in image.shape.dim])
        is_float = numpy_type(image.elem_type).kind not in "iub"
        for node, last in _chain(graph, tensor):
            if node.op_type == "Cast":
                (target,) = (each.i for each in node.attribute if each.name == "to")
                was_float, is_float = is_float, numpy_type(target).kind not in "iub"
                if was_float and not is_float:  # which rounds
                    break
                continue
            with np.errstate(all="ignore"):
                images = _run(node, last, graph, images)
            if node.op_type in _ARITHMETIC:
                line = _read_line(images) if is_float else None
                if line is None:
                    break
                kinds.append(node.op_type)
                found = Normalization(*line, tuple(kinds))
    has_effect = found is not None and (any(found.mean) or set(found.std) != {1.0})
    return found if has_effect else None


def _make_images(dims: Sequence[int]) -> list[Any]:
    """Return a black image, and one for each channel that is 1 there, with sides of 2."""
    axis = len(dims) - (1 if dims[-1] in (1, 3) and dims[-3] not in (1, 3) else 3)
    count = dims[axis] or 3
    if len(dims) not in (3, 4) or count not in (1, 3):
        raise ValueError(f"{dims} is not an image")
    shape = [2] * len(dims) if len(dims) == 3 else [1, 2, 2, 2]
    shape[axis] = count
    images = [np.zeros(shape) for _ in range(1 + count)]
    for channel, image in enumerate(images[1:]):
        image[(slice(None),) * axis + (channel,)] = 1
    return images


def _chain(graph: Any, tensor: str) -> Iterator[tuple[Any, str]]:
    """Yield the operators that follow one another, each the only one that reads what it gets."""
    outer = {name for node in graph.node for name in node.output}
    for _ in range(_MAX_OPERATORS):
        readers = [
            node
            for node in walk_nodes(graph)
            if tensor in node.input and node.op_type not in ("Shape", "Size")
        ]
        if len(readers) != 1 or [*readers[0].input].count(tensor) != 1:
            return
        (node,) = readers
        is_known = node.op_type in (*_ARITHMETIC, *_REARRANGING, "Cast")
        # What is inside another operator, such as If, may not be run.
        if not is_known or node.domain not in ("", "ai.onnx") or node.output[0] not in outer:
            return
        yield node, tensor
        tensor = node.output[0]


def _run(node: Any, tensor: str, graph: Any, images: Sequence[Any]) -> list[Any]:
    """Return what an operator makes of each image."""
    reference: Any = import_onnx("onnx.reference")
    has_old_form = any(each.name in ("axes", "split") for each in node.attribute)
    opset = _OPSET_OF_ATTRIBUTES if has_old_form else _OPSET
    constants = {name: _constant(graph, name) for name in node.input if name not in ("", tensor)}
    operator = reference.ReferenceEvaluator(node, opsets={"": opset})
    return [operator.run(None, {tensor: image, **constants})[0] for image in images]


def _constant(graph: Any, name: str) -> NDArray[Any]:
    """Return a constant of this graph and this file, in float64 where it is of real numbers."""
    to_value = import_onnx("onnx.helper").get_attribute_value
    values = [each for each in graph.initializer if each.name == name] + [
        to_value(node.attribute[0])
        for node in graph.node
        if node.op_type == "Constant" and node.output[0] == name
    ]
    (value,) = values
    if hasattr(value, "external_data"):
        if value.external_data:
            raise ValueError(f"{name} lies in another file")
        value = import_onnx("onnx.numpy_helper").to_array(value)
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _read_line(images: Sequence[Floats]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and deviation of each channel; None where these are not the same everywhere."""
    black, *ones = images
    lines = []
    for one in ones:
        slopes = one - black
        places = slopes != 0
        slope, offset = np.unique(slopes[places]), np.unique(black[places])
        if not (slope.size == offset.size == 1 and np.isfinite([slope, offset, 1 / slope]).all()):
            return None
        lines.append((_round(-offset[0] / slope[0]), _round(1 / slope[0])))
    mean, std = zip(*lines, strict=True)
    return mean, std


def _round(value: float) -> float:
    return float(f"{value:.6g}") + 0.0  # no -0
