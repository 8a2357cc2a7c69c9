"""The head's tensors, geometry, status -> detections or classes: all images in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from endcap import _core, _cuda_input
from endcap._device import Target
from endcap.cuda_array import CudaArray
from endcap.errors import error_for_status
from endcap.masks import pad_rle
from endcap.python_backend.head_job import HeadJob, read_heads
from endcap.python_backend.row_memory import RowMemory
from endcap.triton.stage_settings import StageSettings

_LABELS = ("class_labels", "class_paths")  # are made of class_ids


class PostprocessStage:
    """What a model instance has: the core, and memory for its results.

    Args:
        settings: of the model.
        target: the GPU to work on; None for the CPU.

    Raises:
        UnsupportedError, CudaError: what the device cannot do.
    """

    def __init__(self, settings: StageSettings, target: Target | None) -> None:
        self._batched = settings.batched
        self._labels = settings.labels
        self._target = target
        device_id = None if target is None else target.device_id
        self._core = _core.Postprocessor(settings.parameters, settings.threads, device_id)
        self._inputs = [name for name, _, _ in self._core.inputs]
        self._specs = self._core.outputs
        self._memory = RowMemory(self._specs)
        self._max_detections = int(self.parameters["max_detections"])

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def prepare(self, request: Any) -> HeadJob:
        """Read a request.

        Raises:
            InvalidArgumentError: as read_heads.
        """
        return read_heads(request, self._inputs, batched=self._batched, target=self._target)

    def run(self, jobs: Sequence[HeadJob]) -> None:
        """Process the heads of all requests."""
        self._give_memory(jobs)
        stream = 0 if self._target is None else self._target.stream
        results = self._core.run([job.part for job in jobs], stream)
        for job, (items, rle) in zip(jobs, results, strict=True):
            job.items, job.rle = items, rle

    def finish(self, job: HeadJob) -> dict[str, Any]:
        """Return the outputs that a request wants.

        Raises:
            EndcapError: its first bad head.
        """
        for index, (code, message, _) in enumerate(job.items):
            if code != 0:
                place = f"image index {index} of {job.count}: " if job.count > 1 else ""
                raise error_for_status(code, place + message)
        results = {name: rows for name, rows in job.out.items() if name in job.wanted}
        if _wants_labels(job):
            ids = job.out["class_ids"]
            ids = ids if isinstance(ids, np.ndarray) else ids.to_numpy()
            results["class_labels"] = self._labels.names_of(ids)
            results["class_paths"] = self._labels.paths_of(ids)
        if job.wants_run_lengths:
            results["detection_rle"] = pad_rle(job.rle, self._max_detections)
        return {name: self._shaped(rows) for name, rows in results.items() if name in job.wanted}

    def _give_memory(self, jobs: Sequence[HeadJob]) -> None:
        total = sum(job.count for job in jobs)
        for name, dtype, shape in self._specs:
            begin = 0
            for job in jobs:
                end = begin + job.count
                if name not in job.wanted and not (name == "class_ids" and _wants_labels(job)):
                    job.out[name] = None
                elif self._target is None:
                    job.out[name] = self._memory.rows(name, total)[begin:end]
                else:
                    rows = (job.count, *shape)
                    job.out[name] = _cuda_input.empty(rows, np.dtype(dtype), self._target)
                begin = end

    def _shaped(self, rows: Any) -> Any:
        if isinstance(rows, _core.CudaTensor):
            return CudaArray(rows if self._batched else rows.reshape(rows.shape[1:]))
        return rows if self._batched else rows[0]


def _wants_labels(job: HeadJob) -> bool:
    return any(name in job.wanted for name in _LABELS)
