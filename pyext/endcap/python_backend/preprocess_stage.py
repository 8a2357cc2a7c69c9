"""`encoded` -> images, geometry, status: all images of an execution in one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from endcap import _core, _cuda_input
from endcap._device import Target
from endcap._images import ImageBuffer
from endcap.cuda_array import CudaArray
from endcap.errors import error_for_status
from endcap.python_backend.input_tensors import encoded_files
from endcap.python_backend.row_memory import RowMemory
from endcap.python_backend.settings import Settings

_Item = tuple[int, str, int, str]  # status, message, decode_ns, decoder


@dataclass
class PreprocessJob:
    """One request's part of an execution.

    Attributes:
        files: one for each image.
        wanted: the outputs that were asked for.
        begin: where its rows begin in those of the execution.
        items: what became of each image, after the run.
    """

    files: list[ImageBuffer]
    wanted: Collection[str]
    begin: int = 0
    items: Sequence[_Item] = ()


class PreprocessStage:
    """What a model instance has: the core, and memory for its results.

    Args:
        settings: of the model.
        target: the GPU to work on; None for the CPU.

    Raises:
        UnsupportedError, CudaError: what the device cannot do.
    """

    def __init__(self, settings: Settings, target: Target | None) -> None:
        self._batched = settings.batched
        self._target = target
        self._core = (
            _core.Preprocessor(settings.parameters, settings.threads)
            if target is None
            else _core.CudaPreprocessor(settings.parameters, target.device_id, settings.threads)
        )
        self._specs = self._core.outputs
        self._memory = RowMemory(self._specs)
        self._tolerant = self.parameters["on_error"] == "blank"
        self._results: dict[str, Any] = {}

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def prepare(self, request: Any) -> PreprocessJob:
        """Read a request."""
        files = encoded_files(request, batched=self._batched)
        return PreprocessJob(files, request.requested_output_names())

    def run(self, jobs: Sequence[PreprocessJob]) -> None:
        """Process the images of all requests."""
        files = [file for job in jobs for file in job.files]
        geometry, status = (self._memory.rows(name, len(files)) for name in ("geometry", "status"))
        if isinstance(self._core, _core.CudaPreprocessor):
            images = self._cuda_images(len(files))
            items = self._core.run(files, "rgb", images, geometry, status, images.stream)
            self._results = {"images": images, "geometry": geometry, "status": status}
        else:
            rows = self._memory.rows("images", len(files))
            items = self._core.run(files, "rgb", rows, geometry, status)
            self._results = {"images": rows, "geometry": geometry, "status": status}
        begin = 0
        for job in jobs:
            end = begin + len(job.files)
            job.begin, job.items = begin, items[begin:end]
            geometry[begin:end, 7] = np.arange(len(job.files))  # the place in its own request
            begin = end

    def finish(self, job: PreprocessJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad image, unless bad images are blanked.
        """
        count = len(job.items)
        for index, (code, message, *_) in enumerate(job.items):
            if code != 0 and not self._tolerant:
                place = f"image index {index} of {count}: " if count > 1 else ""
                raise error_for_status(code, place + message)
        return {
            name: self._rows(self._results[name], job.begin, count)
            for name, _, _ in self._specs
            if name in job.wanted
        }

    def _rows(self, result: Any, begin: int, count: int) -> Any:
        if isinstance(result, _core.CudaTensor):
            rows = result.rows(begin, count)
            return CudaArray(rows if self._batched else rows.reshape(rows.shape[1:]))
        return result[begin : begin + count] if self._batched else result[begin]

    def _cuda_images(self, count: int) -> _core.CudaTensor:
        assert self._target is not None  # or the core were the CPU's
        _, dtype, shape = self._specs[0]
        return _cuda_input.empty((count, *shape), np.dtype(dtype), self._target)
