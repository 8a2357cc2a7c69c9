"""Postprocess stage of a Python model: head, geometry, status -> detections or classes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap.cuda_array import Target
from endcap.errors import InvalidArgumentError, UnsupportedError, raise_first
from endcap.masks import pad_rle
from endcap.python_backend.instance import CoreStage
from endcap.python_backend.requests import find_input, get_input, in_place, on_host
from endcap.triton.model_contract import SEMANTIC_IN_PYTHON
from endcap.triton.stage_settings import StageSettings

_LABELS = ("class_labels", "class_paths")  # are made of class_ids
_Tensor = Any  # a NumPy array, or a CudaTensor


@dataclass
class HeadJob:
    """One request's part of an execution.

    Attributes:
        head: the family's tensors, each [B, ...].
        geometry: float32 [B, 8]; None without it.
        status: int32 [B] in host memory; None without it.
        wanted: the requested outputs.
        out: memory for the core's outputs by name, each [B, ...]; None for one that is not needed.
        items: status, message, truncated and dropped of each image, after the run.
        rle: run-length encodings of each image's masks, after the run.
    """

    head: list[_Tensor]
    geometry: _Tensor | None
    status: npt.NDArray[np.int32] | None
    wanted: Collection[str]
    out: dict[str, Any] = field(default_factory=dict)
    items: list[tuple[int, str, bool, int]] = field(default_factory=list)
    rle: list[list[bytes]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many images there are."""
        return int(self.head[0].shape[0])

    @property
    def part(self) -> _core.HeadPart:
        """The job as the core takes it."""
        wants_rle = "detection_rle" in self.wanted
        return self.head, self.geometry, self.status, [*self.out.values()], wants_rle


def _check_rows(name: str, rows: _Tensor, dtype: str, length: int, count: int) -> _Tensor:
    """Return a side input that has a row of that length for each image; else raise."""
    is_array = isinstance(rows, np.ndarray)
    given = rows.dtype if is_array else np.dtype(rows.type_string)
    if given != dtype or list(rows.shape) != [count, length]:
        raise InvalidArgumentError(
            f"input '{name}' is not {dtype} [{length}] for each of the {count} images of the head"
        )
    return rows


class PostprocessStage(CoreStage):
    """Postprocess engine of a model instance; arguments as of `CoreStage`."""

    def __init__(self, settings: StageSettings, target: Target | None) -> None:
        super().__init__(_core.Postprocessor, settings, target)
        if self.parameters["head"] == "semantic":
            raise UnsupportedError(SEMANTIC_IN_PYTHON)
        self._inputs = [name for name, _, _ in self._core.inputs]
        self._max_detections = int(self.parameters["max_detections"])

    def prepare(self, request: Any) -> HeadJob:
        """Read a request.

        Raises:
            InvalidArgumentError: a missing tensor, or tensors of different numbers of images.
        """
        head = [self._read(get_input(request, name)) for name in self._inputs]
        if any(tensor.shape[0] != head[0].shape[0] for tensor in head):
            raise InvalidArgumentError("the head's inputs differ in their batch dimension")
        geometry, status = (find_input(request, name) for name in ("geometry", "status"))
        job = HeadJob(head, None, None, request.requested_output_names())
        if geometry is not None:
            job.geometry = _check_rows("geometry", self._read(geometry), "float32", 8, job.count)
        if status is not None:
            rows = on_host(status).reshape(-1 if self._settings.batched else 1, 1)
            job.status = _check_rows("status", rows, "int32", 1, job.count).reshape(-1)
        return job

    def _read(self, tensor: Any) -> _Tensor:
        array = on_host(tensor) if self._target is None else in_place(tensor, self._target)
        return array if self._settings.batched else array.reshape([1, *array.shape])

    def run(self, jobs: Sequence[HeadJob]) -> None:
        """Process the heads of all requests."""
        for job in jobs:
            for name, dtype, shape in self._specs:
                is_needed = name in job.wanted or (name == "class_ids" and _wants_labels(job))
                job.out[name] = self._rows(dtype, (job.count, *shape)) if is_needed else None
        stream = 0 if self._target is None else self._target.stream
        results = self._core.run([job.part for job in jobs], stream)
        for job, (items, rle) in zip(jobs, results, strict=True):
            job.items, job.rle = items, rle

    def finish(self, job: HeadJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad head.
        """
        raise_first(job.items)
        results = {name: rows for name, rows in job.out.items() if name in job.wanted}
        if _wants_labels(job):
            ids = job.out["class_ids"]
            ids = ids if isinstance(ids, np.ndarray) else ids.to_numpy()
            results["class_labels"] = self._settings.labels.look_up_names(ids)
            results["class_paths"] = self._settings.labels.look_up_paths(ids)
        if "detection_rle" in job.wanted:
            results["detection_rle"] = pad_rle(job.rle, self._max_detections)
        return {name: self._to_output(rows) for name, rows in results.items() if name in job.wanted}


def _wants_labels(job: HeadJob) -> bool:
    return any(name in job.wanted for name in _LABELS)
