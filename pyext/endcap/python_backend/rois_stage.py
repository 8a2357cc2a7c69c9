"""`encoded`, `rois` -> images, geometry, status: a row of each for each region of one image."""

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
from endcap.errors import InvalidArgumentError, error_for_status
from endcap.python_backend.input_tensors import encoded_files, get_input, on_host
from endcap.python_backend.settings import Settings


@dataclass
class RoisJob:
    """One request: an image, its regions [K, 4], the outputs that it wants, and these."""

    file: list[ImageBuffer]
    rois: npt.NDArray[np.float32]
    wanted: Collection[str]
    failure: tuple[int, str] = (0, "")
    results: dict[str, Any] = field(default_factory=dict)


class RoisStage:
    """What a model instance with regions of interest has.

    Args:
        settings: of the model.
        target: the GPU to work on; None for the CPU.

    Raises:
        CudaError: the GPU cannot be used.
    """

    def __init__(self, settings: Settings, target: Target | None) -> None:
        self._target = target
        self._core = (
            _core.Preprocessor(settings.parameters, settings.threads)
            if target is None
            else _core.CudaPreprocessor(settings.parameters, target.device_id, settings.threads)
        )
        self._tolerant = self.parameters["on_error"] == "blank"

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def prepare(self, request: Any) -> RoisJob:
        """Read a request.

        Raises:
            InvalidArgumentError: regions of another shape, more than `max_rois`, or more than
                `max_roi_bytes` of tensors.
        """
        rois = on_host(get_input(request, "rois"))
        if rois.dtype != np.float32 or rois.ndim != 2 or rois.shape[1] != 4:
            raise InvalidArgumentError(
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region"
            )
        file = encoded_files(request, batched=False)
        self._core.check_rois(len(rois))
        return RoisJob(file, rois, request.requested_output_names())

    def run(self, jobs: Sequence[RoisJob]) -> None:
        """Cut out every request's regions; without batches the server hands over one at a time."""
        for job in jobs:
            job.results = {
                name: self._rows(name, (len(job.rois), *shape), np.dtype(dtype))
                for name, dtype, shape in self._core.outputs
            }
            images, geometry, status = job.results.values()
            if isinstance(self._core, _core.CudaPreprocessor):
                code, message, *_ = self._core.run_rois(
                    job.file, "rgb", job.rois, images, geometry, status, images.stream
                )
            else:
                code, message, *_ = self._core.run_rois(
                    job.file, "rgb", job.rois, images, geometry, status
                )
            job.failure = (code, message)

    def _rows(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return memory for an output; the tensors' is the GPU's where there is one."""
        if self._target is not None and name == "images":
            return _cuda_input.empty(shape, dtype, self._target)
        return empty(shape, dtype)

    def finish(self, job: RoisJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: a bad image, or its first bad region, unless these are blanked.
        """
        code, message = job.failure
        if code != 0 and not self._tolerant:
            raise error_for_status(code, message)
        of_each_region = {**job.results, "status": job.results["status"].reshape(-1)}
        if self._target is not None:
            of_each_region["images"] = CudaArray(of_each_region["images"])
        return {name: rows for name, rows in of_each_region.items() if name in job.wanted}
