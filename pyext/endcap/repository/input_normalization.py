"""Normalisation of images, and that by which a network begins, which preprocess does not repeat."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import import_onnx
from endcap.repository.onnx_file import OnnxFile, walk_nodes

NAMES = ("scale", "mean", "std")  # the parameters of preprocess that normalise
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
    """(x * scale - mean) / std of each channel, by preprocess or by a network, whose scale is 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 1.0
    operators: tuple[str, ...] = field(default=(), compare=False)  # of the network, in their order

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str], channels: int = 3) -> Normalization:
        """Return the normalisation of preprocess' parameters for a number of channels."""
        mean, std = (
            np.broadcast_to(np.array(parameters[name].split(","), float), 3)[:channels].tolist()
            for name in NAMES[1:]
        )
        return cls(tuple(mean), tuple(std), float(parameters["scale"]))

    def parameters(self) -> dict[str, str]:
        """Return the parameters of preprocess."""
        mean, std = (",".join(map(_to_text, each)) for each in (self.mean, self.std))
        return {"scale": _to_text(self.scale), "mean": mean, "std": std}

    def __str__(self) -> str:
        """Return the formula, with one number where the channels have the same."""
        pixel = "x" if self.scale == 1 else f"x / {1 / self.scale:.6g}"
        dividend = f"({pixel} - {_short(self.mean)})" if any(self.mean) else pixel
        return dividend if set(self.std) == {1.0} else f"{dividend} / {_short(self.std)}"

    @property
    def slopes(self) -> Floats:
        """What one 8-bit step is in the tensor, per channel."""
        return self.scale / np.array(self.std, np.float64)

    @property
    def shifts(self) -> Floats:
        """What a black pixel is in the tensor, per channel."""
        return -np.array(self.mean, np.float64) / np.array(self.std, np.float64)

    def apply(self, pixels: NDArray[Any] | float) -> Floats:
        """Return what pixels [..., C] become."""
        return np.asarray(pixels * self.slopes + self.shifts, np.float64)

    def undo(self, values: NDArray[Any]) -> Floats:
        """Return the pixels for a tensor's numbers [..., C]."""
        return np.asarray((values - self.shifts) / self.slopes, np.float64)

    def is_close(self, other: Normalization) -> bool:
        """Return whether the two make the same numbers but for rounding."""
        return np.allclose(self.slopes, other.slopes, rtol=1e-4) and np.allclose(
            self.shifts, other.shifts, rtol=1e-4, atol=1e-4
        )

    @property
    def takes_bytes(self) -> bool:
        """Whether a network's is of pixels from 0 to 255, not from 0 to 1."""
        largest = max(map(abs, self.mean))
        return largest > 1 or min(map(abs, self.std)) >= _MIN_DIVISOR_OF_BYTES

    @property
    def has_mean(self) -> bool:
        """Whether it takes something away from each channel, as a whole normalisation does."""
        return all(self.mean)

    @property
    def whole(self) -> Normalization:
        """What preprocess would do in the place of a network, beginning with the pixels."""
        return replace(self, scale=1.0 if self.takes_bytes else 1 / _WHITE)

    def complement(
        self, wanted: Normalization, *, is_integer: bool = False
    ) -> Normalization | None:
        """Return with what in front of it a network does what is wanted.

        The network does the last steps of (x * scale - mean) / std, preprocess those before, and
        none before whole numbers; None where the network does something else.
        """
        candidates = [RAW_PIXELS]
        if not is_integer:
            candidates += [
                replace(RAW_PIXELS, scale=1 / _WHITE),
                replace(RAW_PIXELS, scale=wanted.scale),
                replace(RAW_PIXELS, scale=wanted.scale, mean=wanted.mean),
                replace(RAW_PIXELS, mean=tuple(each / wanted.scale for each in wanted.mean)),
            ]
        ends, tolerance = np.array([[0.0], [_WHITE]]), _TOLERANCE_STEPS * np.abs(wanted.slopes)
        for each in candidates:
            differences = self.apply(each.apply(ends)) - wanted.apply(ends)
            if (np.abs(differences) <= tolerance).all():
                return each
        return None


RAW_PIXELS = Normalization((0.0,) * 3, (1.0,) * 3)


def _short(values: Sequence[float]) -> str:
    texts = [f"{value:.6g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"


def _to_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


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
    found = RAW_PIXELS
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
                found = Normalization(*line, operators=(*found.operators, node.op_type))
    return found if any(found.mean) or set(found.std) != {1.0} else None


def _make_images(dims: Sequence[int]) -> list[Any]:
    """Return a black image, and one for each channel that is 1 there, with sides of 2."""
    axis = -1 if dims[-1] in (1, 3) and dims[-3] not in (1, 3) else -3
    count = dims[axis] or 3
    if len(dims) not in (3, 4) or count not in (1, 3):
        raise ValueError(f"{dims} is not an image")
    shape = [1, 2, 2, 2][-len(dims) :]
    shape[axis] = count
    images = [np.zeros(shape) for _ in range(1 + count)]
    for channel, image in enumerate(images[1:]):
        np.moveaxis(image, axis, 0)[channel] = 1
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
