"""Preprocess stage of a Python model: `encoded`, perhaps `rois` -> images, geometry, status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._device import Target
from endcap._images import ImageBuffer
from endcap.cuda_array import CudaArray
from endcap.errors import InvalidArgumentError, raise_first
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
        items: the result of each image, after the run.
        rows: its outputs, after the run.
    """

    files: list[ImageBuffer]
    wanted: Collection[str]
    rois: npt.NDArray[np.float32] | None = None
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
            self._distribute(jobs, *self._call([file for job in jobs for file in job.files], None))
            return
        for job in jobs:  # without batches the server hands over one at a time
            job.items, rows = self._call(job.files, job.rois)
            images = rows["images"]
            job.rows = {**rows, "images": images if self._target is None else CudaArray(images)}

    def finish(self, job: PreprocessJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad image, or the first bad region of its image, unless bad
                images are blanked.
        """
        if not self._tolerant:
            raise_first(job.items)
        return {name: rows for name, rows in job.rows.items() if name in job.wanted}

    def _read_rois(self, request: Any) -> npt.NDArray[np.float32]:
        rois: npt.NDArray[np.float32] = on_host(get_input(request, "rois"))
        if rois.dtype != np.float32 or rois.ndim != 2 or rois.shape[1] != 4:
            raise InvalidArgumentError(
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region"
            )
        return rois

    def _call(
        self, files: list[ImageBuffer], rois: npt.NDArray[np.float32] | None
    ) -> tuple[list[_Item], dict[str, Any]]:
        """Return the items and the outputs of files, or of the regions of one file."""
        count = len(files) if rois is None else len(rois)
        _, dtype, shape = self._specs[0]
        images = self._rows(dtype, (count, *shape))
        geometry = np.empty((count, 8), np.float32)
        status = np.empty((count, 1) if rois is None else count, np.int32)
        stream = 0 if self._target is None else images.stream
        items = self._core.run(files, "rgb", images, geometry, status, rois, stream)
        return items, {"images": images, "geometry": geometry, "status": status}

    def _distribute(
        self, jobs: Sequence[PreprocessJob], items: Sequence[_Item], results: Mapping[str, Any]
    ) -> None:
        """Give each request its rows of the results of an execution."""
        begin = 0
        for job in jobs:
            count = len(job.files)
            end = begin + count
            results["geometry"][begin:end, 7] = np.arange(count)  # the place in its own request
            job.items = items[begin:end]
            job.rows = {
                name: self._shaped(
                    rows.rows(begin, count)
                    if isinstance(rows, _core.CudaTensor)
                    else rows[begin:end]
                )
                for name, rows in results.items()
            }
            begin = end
