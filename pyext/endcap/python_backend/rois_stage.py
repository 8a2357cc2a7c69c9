"""`encoded`, `rois` -> images, geometry, status: a row of each for each region of one image."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty
from endcap._device import Target
from endcap._images import ImageBuffer
from endcap.errors import InvalidArgumentError, UnsupportedError, error_for_status
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
    """What a model instance with regions of interest has; it works on the CPU.

    Args:
        settings: of the model.
        target: None; what a GPU's instance has is refused.

    Raises:
        UnsupportedError: for a GPU.
    """

    def __init__(self, settings: Settings, target: Target | None) -> None:
        if target is not None:
            raise UnsupportedError(
                "a model with input 'rois' works on the CPU only: give its config instance_group "
                "{ kind: KIND_CPU }"
            )
        self._core = _core.Preprocessor(settings.parameters, settings.threads)
        self._tolerant = self.parameters["on_error"] == "blank"

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def prepare(self, request: Any) -> RoisJob:
        """Read a request.

        Raises:
            InvalidArgumentError: regions of another shape, or more than `max_rois`.
        """
        rois = on_host(get_input(request, "rois"))
        if rois.dtype != np.float32 or rois.ndim != 2 or rois.shape[1] != 4:
            raise InvalidArgumentError(
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region"
            )
        file = encoded_files(request, batched=False)
        self._core.check_roi_count(len(rois))
        return RoisJob(file, rois, request.requested_output_names())

    def run(self, jobs: Sequence[RoisJob]) -> None:
        """Cut out every request's regions; without batches the server hands over one at a time."""
        for job in jobs:
            job.results = out = {
                name: empty((len(job.rois), *shape), np.dtype(dtype))
                for name, dtype, shape in self._core.outputs
            }
            code, message, *_ = self._core.run_rois(
                job.file, "rgb", job.rois, out["images"], out["geometry"], out["status"]
            )
            job.failure = (code, message)

    def finish(self, job: RoisJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: a bad image, or its first bad region, unless these are blanked.
        """
        code, message = job.failure
        if code != 0 and not self._tolerant:
            raise error_for_status(code, message)
        of_each_region = {**job.results, "status": job.results["status"].reshape(-1)}
        return {name: rows for name, rows in of_each_region.items() if name in job.wanted}
