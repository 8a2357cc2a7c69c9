"""A network's input, and its outputs as a trial run gave them or the file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.onnx_file import ExporterMetadata, OnnxFile
from endcap.triton.tensor_spec import TensorSpec

# The types that preprocess writes, by Triton's name.
IMAGE_DTYPES = {"FP32": "float32", "FP16": "float16", "UINT8": "uint8", "INT8": "int8"}
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class NetworkInput:
    """One batch of images.

    Attributes:
        layout: nchw or nhwc.
        size: Height and width.
        batch: The only batch size that the network takes, None when any will do.
        size_reason: Where the size is from.
    """

    name: str
    data_type: str
    layout: str
    channels: int
    size: tuple[int, int]
    batch: int | None
    size_reason: str

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
        RepositoryError: Its input is no single batch of images, or leaves the size open.
    """
    spec = _only_image(network)
    layout = _layout(network.path, spec)
    batch, *rest = spec.dims
    channels, *sides = rest if layout == "nchw" else [rest[-1], *rest[:-1]]
    if batch not in (None, 1):
        raise RepositoryError(
            f"{network.path} takes exactly {batch} images at once ({spec}), and requests come in "
            "any number; export it for a batch of 1, or with a dynamic batch"
        )
    size, reason = _size(network.path, spec, (sides[0], sides[1]), network.metadata, wanted_size)
    return NetworkInput(
        name=spec.name,
        data_type=spec.data_type,
        layout=layout,
        channels=channels or 3,
        size=size,
        batch=batch,
        size_reason=reason,
    )


def _only_image(network: OnnxFile) -> TensorSpec:
    if len(network.inputs) != 1:
        listed = "; ".join(map(str, network.inputs)) or "none"
        raise RepositoryError(
            f"{network.path} has {len(network.inputs)} inputs ({listed}), and one, the image, is "
            "expected; export the network without the others, or with their values inside"
        )
    (spec,) = network.inputs
    if len(spec.dims) != 4:
        raise RepositoryError(
            f"{network.path} takes {spec}, which is no batch of images: [N, C, H, W] or "
            "[N, H, W, C] is expected"
        )
    if spec.data_type not in IMAGE_DTYPES:
        raise RepositoryError(
            f"{network.path} takes {spec}; {', '.join(IMAGE_DTYPES)} are the types that images "
            "can be given in"
        )
    return spec


def _layout(path: Path, spec: TensorSpec) -> str:
    first, last = spec.dims[1] in _CHANNELS, spec.dims[3] in _CHANNELS
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
) -> tuple[tuple[int, int], str]:
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
    raise RepositoryError(
        f"{path} takes images of any height and width ({spec}); say which it was trained for, for "
        "example --size 640 or --size 480,640 (height, width)"
    )


@dataclass(frozen=True)
class NetworkOutput:
    """One output of one image.

    Attributes:
        dims: Without the batch dimension.
        has_batch: Whether there is one, of 1 for one image.
        is_free: Of each dimension in the file, the batch included, whether it is left open.
        values: Of the trial run on noise, in float64; None where it was not run
            or gave no numbers.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    has_batch: bool
    is_free: tuple[bool, ...]
    values: NDArray[np.float64] | None

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self.data_type in ("FP16", "FP32", "FP64")

    def __str__(self) -> str:
        """Return name, type and shape."""
        return str(TensorSpec(self.name, self.data_type, self.dims))


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
                is_free=tuple(dim is None for dim in spec.dims),
                values=None,
            )
        )
    return tuple(outputs)
