"""Normalisation by which a network begins, and what is left of a preset's for preprocess to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import import_onnx
from endcap.repository.onnx_file import OnnxFile

NAMES = ("scale", "mean", "std")  # the parameters of preprocess that normalise
RAW_PIXELS = {"scale": "1", "mean": "0,0,0", "std": "1,1,1"}
_WHITE = 255.0
_FLOATS = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16")
_MAX_OPERATORS = 64
# In 8-bit steps at black and white: division by 128 for 127.5 or 256 for 255, constants of float16.
_TOLERANCE_STEPS = 1.5
_SMALLEST_DIVISOR_OF_BYTES = 16.0
# Operators that move numbers and change none of them.
_REARRANGING = {
    "Gather",
    "SequenceAt",
    "Slice",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Normalization:
    """What a network does to each channel first: (x - mean) / std.

    Attributes:
        mean, std: One number for each channel.
        operators: The operators that do it, in their order.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    operators: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Return the formula, with one number where the channels have the same."""
        dividend = f"(x - {_short(self.mean)})" if any(self.mean) else "x"
        return f"{dividend} / {_short(self.std)}" if set(self.std) != {1.0} else dividend

    @property
    def takes_bytes(self) -> bool:
        """Whether it is of pixels from 0 to 255, not from 0 to 1."""
        largest = max(map(abs, self.mean))
        return largest > 1 or min(map(abs, self.std)) >= _SMALLEST_DIVISOR_OF_BYTES

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

        The network does the last steps of (x * scale - mean) / std, preprocess those before.

        Args:
            wanted: These parameters, of the whole normalisation.
            is_integer: The network takes whole numbers, so that preprocess does none of the steps.

        Returns:
            None where the network does something else than the last steps.
        """
        scale, (mean, std) = float(wanted["scale"]), (_channels(wanted[n]) for n in NAMES[1:])
        candidates = [RAW_PIXELS]
        if not is_integer:
            candidates += [
                {**RAW_PIXELS, "scale": repr(1 / _WHITE)},
                {**RAW_PIXELS, "scale": repr(scale)},
                {**RAW_PIXELS, "scale": repr(scale), "mean": ",".join(map(repr, mean))},
                {**RAW_PIXELS, "mean": ",".join(repr(value / scale) for value in mean)},
            ]
        target = [(x * scale - mean) / std for x in (0.0, _WHITE)]
        step = np.abs(target[1] - target[0]) / _WHITE
        for each in candidates:
            difference = np.abs(np.subtract(self.behind(each), target)) / step
            if (difference <= _TOLERANCE_STEPS).all():
                return each
        return None

    def behind(self, given: Mapping[str, str]) -> list[Floats]:
        """Return what black and white become, by preprocess with these parameters and by this."""
        scale, (mean, std) = float(given["scale"]), (_channels(given[n]) for n in NAMES[1:])
        pixels = [(x * scale - mean) / std for x in (0.0, _WHITE)]
        return [(each - np.array(_three(self.mean))) / _three(self.std) for each in pixels]


def describe(parameters: Mapping[str, str]) -> str:
    """Return the formula of the parameters scale, mean and std."""
    scale, (mean, std) = float(parameters["scale"]), (_channels(parameters[n]) for n in NAMES[1:])
    pixel = "x" if scale == 1 else f"x / {1 / scale:.6g}"
    dividend = f"({pixel} - {_short(mean)})" if any(mean) else pixel
    return dividend if set(std) == {1.0} else f"{dividend} / {_short(std)}"


def _short(values: Sequence[float] | Floats) -> str:
    texts = [f"{value:.6g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") + 0.0 for value in values)  # no -0


def _channels(text: str) -> Floats:
    return np.array(_three([float(value) for value in text.split(",")]))


def _three(values: Sequence[float]) -> Sequence[float]:
    return values if len(values) == 3 else [values[0]] * 3


def read_normalization(network: OnnxFile) -> Normalization | None:
    """Return the normalisation by which a network of one image input begins, else None."""
    names = [spec.name for spec in network.inputs if len(spec.dims) in (3, 4)]
    return find_normalization(network.model.graph, names[0]) if len(names) == 1 else None


def find_normalization(graph: Any, tensor: str) -> Normalization | None:
    """Return the normalisation by which a graph begins; None where it has none.

    All operators between the image and the first one that does something else than to multiply or
    add constants are put together, in whatever order they come.

    Args:
        graph: onnx.GraphProto.
        tensor: The name of the image, [N, C, H, W], [N, H, W, C], or the same without N.
    """
    values = [each.type.tensor_type for each in graph.input if each.name == tensor]
    if not values or len(values[0].shape.dim) not in (3, 4):
        return None
    try:
        chain = _Chain(graph, values[0])
        readers = [*_readers(graph)]
        for _ in range(_MAX_OPERATORS):
            nodes = [node for name, node in readers if name == tensor]
            # What is inside another operator, such as If, may not be run.
            if len(nodes) != 1 or nodes[0] is None or not chain.add(nodes[0], tensor):
                break
            tensor = nodes[0].output[0]
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # operators without what they need: no runtime loads such a file
    return chain.result()


def _readers(graph: Any, *, is_inner: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield each input's name and its operator, None for one of a graph inside another operator."""
    for node in graph.node:
        if node.op_type not in ("Shape", "Size"):
            yield from ((name, None if is_inner else node) for name in node.input)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _readers(inner, is_inner=True)


class _Chain:
    """Operators from the image on, as slope * x + offset of each channel."""

    def __init__(self, graph: Any, image: Any) -> None:
        onnx: Any = import_onnx()
        self._helper: Any = import_onnx("onnx.helper")
        self._type_name = onnx.TensorProto.DataType.Name
        self._constants = _Constants(graph)
        dims = [dim.dim_value for dim in image.shape.dim]
        is_last = dims[-1] in (1, 3) and dims[-3] not in (1, 3)
        self._rank = len(dims)
        self._axis = self._rank - (1 if is_last else 3)  # of the channels
        self._is_float = self._type_name(image.elem_type) in _FLOATS
        self._count = dims[self._axis] or 3
        if self._count not in (1, 3):
            raise ValueError(f"{self._count} channels are no image")
        self._slope, self._offset = np.ones(self._count), np.zeros(self._count)
        self._operators: list[str] = []

    def result(self) -> Normalization | None:
        """Return the normalisation; None where the numbers stay as they are."""
        if (self._slope == 1).all() and not self._offset.any():
            return None
        mean, std = -self._offset / self._slope, 1 / self._slope
        return Normalization(_rounded(mean), _rounded(std), tuple(self._operators))

    def add(self, node: Any, tensor: str) -> bool:
        """Add an operator that reads `tensor`; return False for one that is not of the chain."""
        if node.domain not in ("", "ai.onnx"):
            return False
        attributes = {a.name: self._helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Cast":
            was_float = self._is_float
            self._is_float = self._type_name(attributes["to"]) in _FLOATS
            return self._is_float or not was_float  # to whole numbers it rounds
        if node.op_type == "Identity":
            return True
        if node.op_type in _REARRANGING:
            return self._rearrange(node, attributes)
        with np.errstate(all="ignore"):
            line = self._line(node, tensor, attributes) if self._is_float else None
            if line is None:
                return False
            slope, offset = line[0] * self._slope, line[0] * self._offset + line[1]
            if not (np.isfinite([slope, offset, 1 / slope, offset / slope]).all() and slope.all()):
                return False
        self._slope, self._offset = slope, offset
        self._operators.append(node.op_type)
        return True

    def _line(
        self, node: Any, tensor: str, attributes: Mapping[str, Any]
    ) -> tuple[Floats, Floats] | None:
        """Return slope and offset of one operator; None where it is not linear."""
        if node.op_type == "BatchNormalization":
            return self._batch_normalization(node, attributes)
        if node.op_type in ("Add", "Sub", "Mul", "Div") and len(node.input) == 2:
            return self._arithmetic(node, is_first=node.input[0] == tensor)
        return None

    def _arithmetic(self, node: Any, *, is_first: bool) -> tuple[Floats, Floats] | None:
        constant = self._per_channel(node.input[1 if is_first else 0])
        if constant is None:
            return None
        one, zero = np.ones(self._count), np.zeros(self._count)
        if node.op_type == "Add":
            return one, constant
        if node.op_type == "Sub":
            return (one, -constant) if is_first else (-one, constant)
        if node.op_type == "Mul":
            return constant, zero
        return (1 / constant, zero) if is_first else None

    def _batch_normalization(
        self, node: Any, attributes: Mapping[str, Any]
    ) -> tuple[Floats, Floats] | None:
        arrays = [self._constants.array(name) for name in node.input[1:]]
        values = [
            np.asarray(each, np.float64)
            for each in arrays
            if each is not None and each.shape == (self._count,)
        ]
        if (
            len(values) != 4
            or (self._rank, self._axis) != (4, 1)
            or attributes.get("training_mode")
        ):
            return None
        gamma, beta, mean, variance = values
        slope = gamma / np.sqrt(variance + attributes.get("epsilon", 1e-5))
        return slope, beta - mean * slope

    def _per_channel(self, name: str) -> Floats | None:
        """Return a constant as one number for each channel; None where it is something else."""
        array = self._constants.array(name)
        if array is None or array.ndim > self._rank or not array.size:
            return None
        if array.dtype.kind not in "fiu":
            return None
        array = array.reshape((1,) * (self._rank - array.ndim) + array.shape)
        rows = np.moveaxis(array, self._axis, 0).reshape(array.shape[self._axis], -1)
        if len(rows) not in (1, self._count) or (rows != rows[:, :1]).any():
            return None
        return np.broadcast_to(np.asarray(rows[:, 0], np.float64), (self._count,))

    def _rearrange(self, node: Any, attributes: Mapping[str, Any]) -> bool:
        """Follow the channels through an operator that moves numbers and changes none of them."""
        kind = node.op_type
        if kind == "Transpose":
            order = list(attributes.get("perm", range(self._rank)[::-1]))
            self._axis = order.index(self._axis)
            return True
        if kind == "SequenceAt":
            return True
        axes = self._axes(node, attributes)
        if axes is None:
            return False
        if kind == "Unsqueeze":
            rank = self._rank + len(axes)
            left = sorted({*range(rank)} - {axis % rank for axis in axes})
            self._rank, self._axis = rank, left[self._axis]
            return True
        axes = [axis % self._rank for axis in axes]
        if self._axis in axes:
            return False
        if kind == "Gather":
            index = self._constants.array(node.input[1])
            if index is None or index.ndim > 1:
                return False
            is_dropped = index.ndim == 0
        else:
            keeps = attributes.get("keepdims", 1) or len(node.input) > 1
            is_dropped = kind == "Squeeze" or (kind == "SplitToSequence" and not keeps)
        if is_dropped:
            self._axis -= sum(axis < self._axis for axis in axes)
            self._rank -= len(axes)
        return True

    def _axes(self, node: Any, attributes: Mapping[str, Any]) -> list[int] | None:
        """Return the axes that an operator works along; None where they are not known."""
        if node.op_type in ("Gather", "Split", "SplitToSequence"):
            return [attributes.get("axis", 0)]
        if "axes" in attributes:
            return [int(axis) for axis in attributes["axes"]]
        place = 3 if node.op_type == "Slice" else 1
        if len(node.input) <= place:
            return None
        axes = self._constants.array(node.input[place])
        return None if axes is None else [int(axis) for axis in axes.ravel()]


class _Constants:
    """Values of a graph that do not depend on images."""

    def __init__(self, graph: Any) -> None:
        self._numpy_helper: Any = import_onnx("onnx.numpy_helper")
        self._helper: Any = import_onnx("onnx.helper")
        self._tensors = {each.name: each for each in graph.initializer}
        self._nodes = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}

    def array(self, name: str) -> NDArray[Any] | None:
        """Return a constant; None where there is none, or its values lie in another file."""
        tensor = self._tensors.get(name)
        if name in self._nodes and self._nodes[name].attribute:
            value = self._helper.get_attribute_value(self._nodes[name].attribute[0])
            if isinstance(value, (float, int, list)):
                return np.asarray(value)
            tensor = value if hasattr(value, "external_data") else None
        if tensor is None or tensor.external_data:
            return None
        array: NDArray[Any] = self._numpy_helper.to_array(tensor)
        return array
