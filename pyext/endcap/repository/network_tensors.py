"""A network's input, and its outputs as a trial run gave them or the file declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import Normalization, find_normalization
from endcap.repository.onnx_file import OnnxFile
from endcap.triton.tensor_spec import Dims, TensorSpec, dims_fit

# The types that preprocess writes, by Triton's name.
IMAGE_DTYPES = {"FP32": "float32", "FP16": "float16", "UINT8": "uint8", "INT8": "int8"}
_CHANNELS = (1, 3)
_EXAMPLE_SIDE = 640
# Inputs next to the image, whose value follows from its height and width where preprocess has done
# the resizing: PaddleDetection's, and that of RT-DETR's and D-FINE's own exporters.
_SIDE_INPUTS: Mapping[str, Callable[[int, int], tuple[int, int]]] = {
    "scale_factor": lambda height, width: (1, 1),
    "im_shape": lambda height, width: (height, width),
    "orig_target_sizes": lambda height, width: (width, height),
}
_SIDE_DTYPES = {"FP32": np.float32, "INT64": np.int64, "INT32": np.int32}


@dataclass(frozen=True)
class NetworkInput:
    """The network's image input."""

    name: str
    data_type: str
    layout: str  # nchw or nhwc
    channels: int
    size: tuple[int, int]  # height and width
    batch: int | None  # the only batch size that the network takes, None when any will do
    size_reason: str
    has_batch: bool = True  # else a graph edit adds a batch dimension
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of the other inputs
    normalization: Normalization | None = None  # what the network does to each channel first
    missing_size: str = ""  # why the user has to give the size, of which `size` is an example

    @property
    def dtype(self) -> str:
        """NumPy's name of the type."""
        return IMAGE_DTYPES[self.data_type]

    @property
    def dims(self) -> tuple[int, int, int]:
        """The dimensions of one image."""
        return (self.channels, *self.size) if self.layout == "nchw" else (*self.size, self.channels)


def read_input(network: OnnxFile, wanted_size: tuple[int, int] | None) -> NetworkInput:
    """Return how a network takes images; `wanted_size` is for a network that takes any.

    Raises:
        RepositoryError: Its input is not a single batch of images.
    """
    path = network.path
    others = [
        spec
        for spec in network.inputs
        if spec.name in _SIDE_INPUTS and spec.dims[1:] == (2,) and spec.data_type in _SIDE_DTYPES
    ]
    images = [spec for spec in network.inputs if spec not in others]
    if len(images) != 1:
        listed = "; ".join(map(str, network.inputs)) or "none"
        raise RepositoryError(
            f"{path} has {len(network.inputs)} inputs ({listed}), and one, the image, is "
            "expected; export the network without the others, or with their values inside"
        )
    (spec,) = images
    has_batch = len(spec.dims) == 4
    if len(spec.dims) not in (3, 4) or spec.data_type not in IMAGE_DTYPES:
        raise RepositoryError(
            f"{path} takes {spec}, which is not a batch of images: [N, C, H, W] or [N, H, W, C] is "
            f"expected, or one image, [C, H, W] or [H, W, C], of {', '.join(IMAGE_DTYPES)}"
        )
    batch, *rest = spec.dims if has_batch else (1, *spec.dims)
    is_first, is_last = rest[0] in _CHANNELS, rest[-1] in _CHANNELS
    if is_first == is_last:
        raise RepositoryError(
            f"{path} takes {spec}: a channel dimension of 1 or 3 is expected behind the batch or "
            f"at the end, and {'both ends' if is_first else 'neither end'} may be it; export it "
            "with fixed channels"
        )
    if batch not in (None, 1):
        advice = "export it for a batch of 1, or with a dynamic batch"
        if network.metadata.has_nms:  # which works in batches of up to the exporter's alone
            advice = "export it with dynamic=True and leave out nms=True; endcap suppresses itself"
        raise RepositoryError(
            f"{path} takes exactly {batch} images at once ({spec}), and requests come in any "
            f"number; {advice}"
        )
    sides = tuple(rest[1:] if is_first else rest[:-1])
    size, reason, missing = _choose_size(network, spec, sides, wanted_size)
    return NetworkInput(
        name=spec.name,
        data_type=spec.data_type,
        layout="nchw" if is_first else "nhwc",
        channels=(rest[0] if is_first else rest[-1]) or 3,
        size=size,
        batch=batch,
        size_reason=reason,
        has_batch=has_batch,
        constants={
            each.name: np.array([_SIDE_INPUTS[each.name](*size)], _SIDE_DTYPES[each.data_type])
            for each in others
        },
        normalization=find_normalization(network.model.graph, spec.name),
        missing_size=missing,
    )


def _choose_size(
    network: OnnxFile, spec: TensorSpec, sides: Dims, wanted: tuple[int, int] | None
) -> tuple[tuple[int, int], str, str]:
    """Return the size, where it is from, and what is missing where it is an example alone."""
    path, declared = network.path, network.metadata.size
    if wanted is not None:
        if not dims_fit(sides, wanted):
            raise RepositoryError(
                f"--size is {wanted[0]},{wanted[1]} (height, width), and {path} takes {spec} only; "
                "leave --size out"
            )
        return wanted, "--size", ""
    if None not in sides:
        return (sides[0] or 0, sides[1] or 0), "the input's shape", ""
    if declared and dims_fit(sides, declared):
        return declared, "imgsz in the metadata; the network itself takes any size", ""
    missing = (
        f"{path} takes images of any height and width ({spec}); say which it was trained for, for "
        "example --size 640 or --size 480,640 (height, width)"
    )
    return (sides[0] or _EXAMPLE_SIDE, sides[1] or _EXAMPLE_SIDE), "", missing


@dataclass(frozen=True)
class OutputEdit:
    """What a graph edit does to an output, in this order; see `graph_edit`."""

    adds_batch: bool = False
    shape: tuple[int, ...] = ()  # the dimensions that an image's numbers get
    appends: str = ""  # another output, whose numbers become the last column
    transposes: bool = False
    columns: tuple[int, ...] = ()  # those that are taken, in their new order
    data_type: str = ""  # Triton's name of the type that it is cast to
    frees_batch: bool = False  # the file declares one image, and the network takes more

    def __str__(self) -> str:
        """Return what is done, for people: `gets a batch dimension, is transposed`."""
        steps = (
            (self.adds_batch, "gets a batch dimension"),
            (self.shape, f"becomes {list(self.shape)} for an image"),
            (self.appends, f"gets {self.appends} as its last column"),
            (self.transposes, "is transposed"),
            (self.columns, f"has the columns {', '.join(map(str, self.columns))}"),
            (self.data_type, f"becomes {self.data_type}"),
            (self.frees_batch, "gets a dynamic batch dimension"),
        )
        return ", ".join(text for is_done, text in steps if is_done)


@dataclass(frozen=True)
class NetworkOutput:
    """One output of one image."""

    name: str
    data_type: str
    has_batch: bool
    is_dynamic: tuple[bool, ...]  # of each dimension in the file, the batch included
    values: NDArray[np.float64]  # of one image; zeros where it was not run or gave no numbers
    rows_vary: bool = False  # whether their number does, or may by the file, or is 0
    edit: OutputEdit = OutputEdit()  # of the file's output, which makes this one of it

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions without the batch dimension, of the trial run's first image."""
        return self.values.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions for one image, with the batch dimension."""
        return (1, *self.dims) if self.has_batch else self.dims

    @property
    def served_dims(self) -> tuple[int, ...]:
        """`dims`, -1 where they follow what an image shows."""
        if not self.rows_vary:
            return self.dims
        dynamic = self.is_dynamic[len(self.is_dynamic) - len(self.dims) :]
        return tuple(-1 if each else dim for dim, each in zip(self.dims, dynamic, strict=True))

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self.data_type in ("FP16", "FP32", "FP64")

    def __str__(self) -> str:
        """Return name, type and shape."""
        return str(TensorSpec(self.name, self.data_type, self.dims))

    def edited(self, edit: OutputEdit, appended: NetworkOutput | None = None) -> NetworkOutput:
        """Return the output as the edited network gives it, with another that the edit appends."""
        values, is_dynamic = self.values, self.is_dynamic
        if edit.adds_batch:  # also where the first dimension is 1
            values, is_dynamic = values.reshape(self.shape), (False, *is_dynamic)
        if edit.shape:
            values = values.reshape(edit.shape)
            is_dynamic = (is_dynamic[0], *[False] * len(edit.shape))
        if appended is not None:
            values = np.hstack([values, appended.values.reshape(-1, 1)])
        if edit.transposes:
            values, is_dynamic = values.T, (is_dynamic[0], *is_dynamic[:0:-1])
        if edit.columns:
            values, is_dynamic = values[..., list(edit.columns)], (*is_dynamic[:-1], False)
        data_type = edit.data_type or self.data_type
        return NetworkOutput(self.name, data_type, True, is_dynamic, values, self.rows_vary, edit)

    def with_batch(self) -> NetworkOutput:
        """Return the output with a batch dimension, which an edit may add."""
        return self if self.has_batch else self.edited(OutputEdit(adds_batch=True))

    def with_free_batch(self) -> NetworkOutput:
        """Return the output with a dynamic batch dimension, which an edit may declare."""
        if self.is_dynamic[:1] != (False,):
            return self
        edit = replace(self.edit, frees_batch=True)
        return replace(self, is_dynamic=(True, *self.is_dynamic[1:]), edit=edit)


def declared_outputs(network: OnnxFile) -> tuple[NetworkOutput, ...]:
    """Return the outputs as the file declares them.

    Raises:
        RepositoryError: A size is left open.
    """
    outputs = []
    for spec in network.outputs:
        dims = tuple(dim for dim in spec.dims[1:] if dim is not None)
        if len(dims) != len(spec.dims) - 1 or spec.dims[0] not in (None, 1):
            raise RepositoryError(
                f"{network.path} does not declare the shape of its output for one image ({spec}), "
                "and it cannot be tried here; export it with fixed shapes behind the batch"
            )
        is_dynamic = tuple(dim is None for dim in spec.dims)
        values = np.zeros(dims)
        outputs.append(NetworkOutput(spec.name, spec.data_type, True, is_dynamic, values))
    return tuple(outputs)
