"""Preprocess stage of a Python model: `encoded` -> images, geometry, status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import endcap._core as _core
from endcap.cuda_array import Target
from endcap.errors import raise_first
from endcap.python_backend.instance import CoreStage
from endcap.python_backend.requests import encoded_files
from endcap.triton.stage_settings import StageSettings

_Item = tuple[int, str, int, str]  # status, message, decode_ns, decoder


@dataclass
class PreprocessJob:
    """One request's part of an execution.

    Attributes:
        files: one for each image.
        wanted: the requested outputs.
        items: the result of each image, after the run.
        rows: its outputs, after the run.
    """

    files: list[_core.ImageBuffer]
    wanted: Collection[str]
    items: Sequence[_Item] = ()
    rows: dict[str, Any] = field(default_factory=dict)


class PreprocessStage(CoreStage):
    """Preprocess engine of a model instance; arguments as of `CoreStage`.

    All images of an execution go through the core in one call.
    """

    def __init__(self, settings: StageSettings, target: Target | None) -> None:
        super().__init__(_core.Preprocessor, settings, target)
        self._tolerant = self.parameters["on_error"] == "blank"

    def prepare(self, request: Any) -> PreprocessJob:
        """Read a request."""
        files = encoded_files(request, batched=self._settings.batched)
        return PreprocessJob(files, request.requested_output_names())

    def run(self, jobs: Sequence[PreprocessJob]) -> None:
        """Process the images of all requests."""
        files = [file for job in jobs for file in job.files]
        (_, dtype, shape), *of_host = self._specs
        images = self._rows(dtype, (len(files), *shape))
        geometry, status = (np.empty((len(files), *row), kind) for _, kind, row in of_host)
        stream = 0 if self._target is None else images.stream
        items = self._core.run(files, "rgb", images, geometry, status, None, stream)
        self._distribute(jobs, items, {"images": images, "geometry": geometry, "status": status})

    def finish(self, job: PreprocessJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad image, unless bad images are blanked.
        """
        if not self._tolerant:
            raise_first(job.items)
        return {name: rows for name, rows in job.rows.items() if name in job.wanted}

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
                name: self._to_output(
                    rows.rows(begin, count)
                    if isinstance(rows, _core.CudaTensor)
                    else rows[begin:end]
                )
                for name, rows in results.items()
            }
            begin = end
