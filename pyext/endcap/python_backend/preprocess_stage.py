"""Preprocess stage of a Python model: `encoded`, perhaps `rois` -> images, geometry, status."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core, _cuda_input
from endcap._arrays import empty
from endcap._device import Target
from endcap._images import ImageBuffer
from endcap.cuda_array import CudaArray
from endcap.errors import InvalidArgumentError
from endcap.python_backend.instance import CoreStage
from endcap.python_backend.requests import encoded_files, get_input, on_host
from endcap.triton.stage_settings import StageSettings

_Item = tuple[int, str, int, str]  # status, message, decode_ns, decoder


@dataclass
class PreprocessJob:
    """One request's part of an execution.

    Attributes:
        files: one for each image.
        wanted: the requested outputs.
        rois: regions [K, 4] of the only image, where the model takes them.
        begin: where its rows begin in those of the execution.
        items: the result of each image, after the run.
        rows: of a request with regions, its outputs, after the run.
    """

    files: list[ImageBuffer]
    wanted: Collection[str]
    rois: npt.NDArray[np.float32] | None = None
    begin: int = 0
    items: Sequence[_Item] = ()
    rows: dict[str, Any] = field(default_factory=dict)


class PreprocessStage(CoreStage):
    """Preprocess engine of a model instance; arguments as of `CoreStage`.

    All images of an execution go through the core in one call. With regions a request is one
    image, and has a row of each output for each region.
    """

    def __init__(self, settings: StageSettings, target: Target | None) -> None:
        super().__init__(_core.Preprocessor, settings, target)
        self._tolerant = self.parameters["on_error"] == "blank"
        self._results: dict[str, Any] = {}

    def prepare(self, request: Any) -> PreprocessJob:
        """Read a request.

        Raises:
            InvalidArgumentError: regions of another shape, more than `max_rois`, or more than
                `max_roi_bytes` of tensors.
        """
        rois = self._read_rois(request) if self._settings.with_rois else None
        files = encoded_files(request, batched=self._settings.batched)
        if rois is not None:
            self._core.check_rois(len(rois))
        return PreprocessJob(files, request.requested_output_names(), rois)

    def run(self, jobs: Sequence[PreprocessJob]) -> None:
        """Process the images of all requests."""
        if not self._settings.with_rois:
            self._run_images(jobs)
            return
        for job in jobs:  # without batches the server hands over one at a time
            self._run_regions(job)

    def finish(self, job: PreprocessJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad image, or the first bad region of its image, unless bad
                images are blanked.
        """
        if not self._tolerant:
            self._raise_first_failure(job.items)
        if job.rois is not None:
            return {name: rows for name, rows in job.rows.items() if name in job.wanted}
        return {
            name: self._rows(self._results[name], job.begin, len(job.items))
            for name, _, _ in self._specs
            if name in job.wanted
        }

    def _read_rois(self, request: Any) -> npt.NDArray[np.float32]:
        rois: npt.NDArray[np.float32] = on_host(get_input(request, "rois"))
        if rois.dtype != np.float32 or rois.ndim != 2 or rois.shape[1] != 4:
            raise InvalidArgumentError(
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region"
            )
        return rois

    def _run_images(self, jobs: Sequence[PreprocessJob]) -> None:
        files = [file for job in jobs for file in job.files]
        geometry, status = (self._memory.rows(name, len(files)) for name in ("geometry", "status"))
        images: Any = (
            self._memory.rows("images", len(files))
            if self._target is None
            else self._cuda_images(len(files))
        )
        items = self._call(files, images, geometry, status, None)
        self._results = {"images": images, "geometry": geometry, "status": status}
        begin = 0
        for job in jobs:
            end = begin + len(job.files)
            job.begin, job.items = begin, items[begin:end]
            geometry[begin:end, 7] = np.arange(len(job.files))  # the place in its own request
            begin = end

    def _run_regions(self, job: PreprocessJob) -> None:
        assert job.rois is not None
        count = len(job.rois)
        geometry, status = np.empty((count, 8), np.float32), np.empty(count, np.int32)
        _, dtype, shape = self._specs[0]
        images: Any = (
            empty((count, *shape), np.dtype(dtype))
            if self._target is None
            else self._cuda_images(count)
        )
        job.items = self._call(job.files, images, geometry, status, job.rois)
        tensors = images if self._target is None else CudaArray(images)
        job.rows = {"images": tensors, "geometry": geometry, "status": status}

    def _call(
        self,
        files: list[ImageBuffer],
        images: Any,
        geometry: npt.NDArray[np.float32],
        status: npt.NDArray[np.int32],
        rois: npt.NDArray[np.float32] | None,
    ) -> list[_Item]:
        stream = 0 if self._target is None else images.stream
        items: list[_Item] = self._core.run(files, "rgb", images, geometry, status, rois, stream)
        return items

    def _rows(self, result: Any, begin: int, count: int) -> Any:
        on_gpu = isinstance(result, _core.CudaTensor)
        return self._shaped(result.rows(begin, count) if on_gpu else result[begin : begin + count])

    def _cuda_images(self, count: int) -> _core.CudaTensor:
        assert self._target is not None  # or the core were the CPU's
        _, dtype, shape = self._specs[0]
        return _cuda_input.empty((count, *shape), np.dtype(dtype), self._target)
