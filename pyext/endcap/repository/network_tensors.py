"""A network's input, and its outputs as a trial run gave them or the file declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import Normalization, find_normalization
from endcap.repository.onnx_file import ExporterMetadata, OnnxFile
from endcap.triton.tensor_spec import TensorSpec

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
    """The network's image input.

    Attributes:
        layout: nchw or nhwc.
        size: Height and width.
        batch: The only batch size that the network takes, None when any will do.
        size_reason: Where the size is from.
        missing_size: Why the user has to give the size, of which `size` is an example; else "".
        has_batch: Whether the file's input has a batch dimension; a graph edit adds it where not.
        constants: The values of the network's other inputs, which a graph edit puts inside.
        normalization: What the network does to each channel first; None where nothing.
    """

    name: str
    data_type: str
    layout: str
    channels: int
    size: tuple[int, int]
    batch: int | None
    size_reason: str
    has_batch: bool = True
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    normalization: Normalization | None = None
    missing_size: str = ""

    @property
    def dtype(self) -> str:
        """NumPy's name of the type."""
        return IMAGE_DTYPES[self.data_type]

    @property
    def dims(self) -> tuple[int, int, int]:
        """The dimensions of one image."""
        height, width = self.size
        if self.layout == "nchw":
            return (self.channels, height, width)
        return (height, width, self.channels)


def read_input(network: OnnxFile, wanted_size: tuple[int, int] | None) -> NetworkInput:
    """Return how a network takes images.

    Args:
        network: The network.
        wanted_size: Height and width, for a network that takes any.

    Raises:
        RepositoryError: Its input is not a single batch of images, or leaves the size open.
    """
    spec, others = _only_image(network)
    has_batch = len(spec.dims) == 4
    layout = _layout(network.path, spec)
    batch, *rest = spec.dims if has_batch else (1, *spec.dims)
    channels, *sides = rest if layout == "nchw" else [rest[-1], *rest[:-1]]
    if batch not in (None, 1):
        advice = "export it for a batch of 1, or with a dynamic batch"
        if network.metadata.has_nms:  # which works in batches of up to the exporter's alone
            advice = "export it with dynamic=True and leave out nms=True; endcap suppresses itself"
        raise RepositoryError(
            f"{network.path} takes exactly {batch} images at once ({spec}), and requests come in "
            f"any number; {advice}"
        )
    size, reason = _size(network.path, spec, (sides[0], sides[1]), network.metadata, wanted_size)
    missing = ""
    if size is None:
        size = (sides[0] or _EXAMPLE_SIDE, sides[1] or _EXAMPLE_SIDE)
        missing, reason = reason, ""
    return NetworkInput(
        name=spec.name,
        data_type=spec.data_type,
        layout=layout,
        channels=channels or 3,
        size=size,
        batch=batch,
        size_reason=reason,
        has_batch=has_batch,
        constants={each.name: _known_value(each, size) for each in others},
        normalization=find_normalization(network.model.graph, spec.name),
        missing_size=missing,
    )


def _only_image(network: OnnxFile) -> tuple[TensorSpec, list[TensorSpec]]:
    """Return the image, and the other inputs, whose values are known."""
    others = [spec for spec in network.inputs if _is_known(spec)]
    images = [spec for spec in network.inputs if spec not in others]
    if len(images) != 1:
        listed = "; ".join(map(str, network.inputs)) or "none"
        raise RepositoryError(
            f"{network.path} has {len(network.inputs)} inputs ({listed}), and one, the image, is "
            "expected; export the network without the others, or with their values inside"
        )
    (spec,) = images
    if len(spec.dims) not in (3, 4):
        raise RepositoryError(
            f"{network.path} takes {spec}, which is not a batch of images: [N, C, H, W] or "
            "[N, H, W, C] is expected, or one image, [C, H, W] or [H, W, C]"
        )
    if spec.data_type not in IMAGE_DTYPES:
        raise RepositoryError(
            f"{network.path} takes {spec}; {', '.join(IMAGE_DTYPES)} are the types that images "
            "can be given in"
        )
    return spec, others


def _is_known(spec: TensorSpec) -> bool:
    return spec.name in _SIDE_INPUTS and spec.dims[1:] == (2,) and spec.data_type in _SIDE_DTYPES


def _known_value(spec: TensorSpec, size: tuple[int, int]) -> NDArray[Any]:
    """Return the value [1, 2] of an input for images that have the network's size already."""
    return np.array([_SIDE_INPUTS[spec.name](*size)], _SIDE_DTYPES[spec.data_type])


def _layout(path: Path, spec: TensorSpec) -> str:
    first, last = spec.dims[-3] in _CHANNELS, spec.dims[-1] in _CHANNELS
    if first != last:
        return "nchw" if first else "nhwc"
    where = "both ends" if first else "neither end"
    raise RepositoryError(
        f"{path} takes {spec}: a channel dimension of 1 or 3 is expected behind the batch or at "
        f"the end, and {where} may be it; export it with fixed channels"
    )


def _size(
    path: Path,
    spec: TensorSpec,
    sides: tuple[int | None, int | None],
    metadata: ExporterMetadata,
    wanted: tuple[int, int] | None,
) -> tuple[tuple[int, int] | None, str]:
    """Return the size and where it is from, or else None and what is to be given."""
    if wanted is not None:
        if any(side not in (None, want) for side, want in zip(sides, wanted, strict=True)):
            raise RepositoryError(
                f"--size is {wanted[0]},{wanted[1]} (height, width), and {path} takes {spec} only; "
                "leave --size out"
            )
        return wanted, "--size"
    height, width = sides
    if height is not None and width is not None:
        return (height, width), "the input's shape"
    declared = metadata.size
    if declared and all(side in (None, want) for side, want in zip(sides, declared, strict=True)):
        return declared, "imgsz in the metadata; the network itself takes any size"
    return None, (
        f"{path} takes images of any height and width ({spec}); say which it was trained for, for "
        "example --size 640 or --size 480,640 (height, width)"
    )


@dataclass(frozen=True)
class OutputEdit:
    """What a graph edit does to an output, in this order; see `graph_edit`.

    Attributes:
        adds_batch: A batch dimension is put in front.
        shape: The dimensions that an image's numbers get; () leaves them.
        appends: Another output, whose numbers become the last column; "" for none.
        transposes: Rows and columns change places.
        columns: The columns that are taken, in their new order; () leaves all.
        data_type: Triton's name of the type that it is cast to; "" leaves it.
        frees_batch: The file declares one image, and the network takes more: its batch dimension
            becomes dynamic.
    """

    adds_batch: bool = False
    shape: tuple[int, ...] = ()
    appends: str = ""
    transposes: bool = False
    columns: tuple[int, ...] = ()
    data_type: str = ""
    frees_batch: bool = False

    def __str__(self) -> str:
        """Return what is done, for people: `gets a batch dimension, is transposed`."""
        order = ", ".join(map(str, self.columns))
        steps = (
            (self.adds_batch, "gets a batch dimension"),
            (self.shape, f"becomes {list(self.shape)} for an image"),
            (self.appends, f"gets {self.appends} as its last column"),
            (self.transposes, "is transposed"),
            (self.columns, f"has the columns {order}"),
            (self.data_type, f"becomes {self.data_type}"),
            (self.frees_batch, "gets a dynamic batch dimension"),
        )
        return ", ".join(text for is_done, text in steps if is_done)


@dataclass(frozen=True)
class NetworkOutput:
    """One output of one image.

    Attributes:
        dims: Without the batch dimension, of the trial run's first image.
        has_batch: Whether there is one, of 1 for one image.
        is_dynamic: Of each dimension in the file, the batch included, whether it is dynamic.
        values: Of the trial run on noise, in float64; None where it was not run
            or gave no numbers.
        rows_vary: Whether two images gave different numbers of rows, or none, or their number is
            dynamic in the file.
        edit: What has to be done to the file's output before it is this one.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    has_batch: bool
    is_dynamic: tuple[bool, ...]
    values: NDArray[np.float64] | None
    rows_vary: bool = False
    edit: OutputEdit = OutputEdit()

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


@dataclass(frozen=True)
class ScoreColumns:
    """How many scores a network with suppression inside has for each box.

    Attributes:
        activation: The operator that makes scores of them, Softmax or Sigmoid.
    """

    count: int
    activation: str

    @property
    def has_background(self) -> bool:
        """Whether one of them is for no object, which only a softmax needs."""
        return self.activation == "Softmax"


def declared_outputs(network: OnnxFile) -> tuple[NetworkOutput, ...]:
    """Return the outputs as the file declares them.

    Raises:
        RepositoryError: A size is left open.
    """
    outputs = []
    for spec in network.outputs:
        known = tuple(dim for dim in spec.dims[1:] if dim is not None)
        if len(known) != len(spec.dims) - 1 or spec.dims[0] not in (None, 1):
            raise RepositoryError(
                f"{network.path} does not declare the shape of its output for one image ({spec}), "
                "and it cannot be tried here; export it with fixed shapes behind the batch"
            )
        outputs.append(
            NetworkOutput(
                name=spec.name,
                data_type=spec.data_type,
                dims=known,
                has_batch=True,
                is_dynamic=tuple(dim is None for dim in spec.dims),
                values=None,
            )
        )
    return tuple(outputs)
