"""One request's heads: its inputs, read where they lie, and memory for its outputs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._device import Target
from endcap.errors import InvalidArgumentError
from endcap.python_backend.input_tensors import find_input, get_input, in_place, on_host

_Tensor = Any  # a NumPy array, or a CudaTensor

_NO_GEOMETRY = np.empty((0, 8), np.float32)
_NO_STATUS = np.empty(0, np.int32)


@dataclass
class HeadJob:
    """One request's part of an execution.

    Attributes:
        head: the family's tensors, each [B, ...].
        geometry: float32 [B, 8], or no row.
        status: int32 [B], or none, in host memory.
        wanted: the outputs that were asked for.
        out: memory for the core's outputs, by name, each [B, ...]; None for what is not needed.
        items: status, message and truncated of each image, after the run.
        rle: run lengths of each image's masks, after the run.
    """

    head: list[_Tensor]
    geometry: _Tensor
    status: npt.NDArray[np.int32]
    wanted: Collection[str]
    out: dict[str, Any] = field(default_factory=dict)
    items: list[tuple[int, str, bool]] = field(default_factory=list)
    rle: list[list[bytes]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many images there are."""
        return int(self.head[0].shape[0])

    @property
    def wants_run_lengths(self) -> bool:
        """Whether masks are wanted as run-length encodings."""
        return "detection_rle" in self.wanted

    @property
    def part(self) -> _core.HeadPart:
        """The job as the core takes it."""
        geometry = self.geometry if self.geometry.shape[0] > 0 else None
        return self.head, geometry, self.status, [*self.out.values()], self.wants_run_lengths


def read_heads(
    request: Any, names: Collection[str], *, batched: bool, target: Target | None
) -> HeadJob:
    """Read a request's inputs.

    Args:
        request: the server's.
        names: of the head's tensors, in the core's order.
        batched: whether tensors have a batch dimension.
        target: the GPU that the core works on; None for the CPU.

    Raises:
        InvalidArgumentError: a missing tensor, or tensors that differ in their number of images.
    """

    def read(tensor: Any) -> _Tensor:
        array = on_host(tensor) if target is None else in_place(tensor, target)
        return array if batched else array.reshape([1, *array.shape])

    head = [read(get_input(request, name)) for name in names]
    if any(tensor.shape[0] != head[0].shape[0] for tensor in head):
        raise InvalidArgumentError("the head's inputs differ in their batch dimension")
    geometry, status = (find_input(request, name) for name in ("geometry", "status"))
    job = HeadJob(head, _NO_GEOMETRY, _NO_STATUS, request.requested_output_names())
    if geometry is not None:
        job.geometry = _rows("geometry", read(geometry), "float32", 8, job.count)
    if status is not None:
        rows = on_host(status).reshape(-1 if batched else 1, 1)
        job.status = _rows("status", rows, "int32", 1, job.count).reshape(-1)
    return job


def _rows(name: str, rows: _Tensor, dtype: str, length: int, count: int) -> _Tensor:
    """Return a side input that has a row of that length for each image; else raise."""
    is_array = isinstance(rows, np.ndarray)
    given = rows.dtype if is_array else np.dtype(rows.type_string)
    if given != dtype or list(rows.shape) != [count, length]:
        raise InvalidArgumentError(
            f"input '{name}' is not {dtype} [{length}] for each of the {count} images of the head"
        )
    return rows
