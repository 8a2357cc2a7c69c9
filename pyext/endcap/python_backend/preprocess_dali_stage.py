"""Preprocess stage of a Python model by a DALI pipeline: one run for all images of an execution."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import endcap._core as _core
from endcap.cuda_array import Target
from endcap.errors import Status
from endcap.python_backend.preprocess_stage import PreprocessJob, PreprocessStage
from endcap.triton.stage_settings import StageSettings, dali_arguments

_SMALL = ("geometry", "status")  # which are read and completed on the host


class PreprocessDaliStage(PreprocessStage):
    """Preprocess engine of an instance of `preprocess_dali`: a pipeline, built once.

    The pipeline blanks bad images whatever `on_error` says, since an operator's error would end it
    for the whole batch; the core then says what is wrong with each, for `finish` to raise.

    Args:
        settings: of the model.
        target: the GPU to work on; None for the CPU.

    Raises:
        DaliError: DALI is not installed, or endcap's operators are not built for it.
    """

    def __init__(self, settings: StageSettings, target: Target | None) -> None:
        super().__init__(replace(settings, threads=1), None)  # its core is for the messages alone
        self._target = target
        self._pipeline = _build(settings, target)

    def run(self, jobs: Sequence[PreprocessJob]) -> None:
        """Process the images of all requests."""
        files = [file for job in jobs for file in job.files]
        results = self._run_pipeline(files)
        codes = results["status"].reshape(-1).tolist()
        items = [self._item(*each) for each in zip(codes, files, strict=True)]
        self._distribute(jobs, items, results)

    def _run_pipeline(self, files: Sequence[_core.ImageBuffer]) -> dict[str, Any]:
        encoded = [np.frombuffer(file, np.uint8) for file in files]
        outputs = self._pipeline.run(encoded=encoded)
        results: dict[str, Any] = {}
        for (name, dtype, shape), output in zip(self._specs, outputs, strict=True):
            if name in _SMALL:
                on_host = output if self._target is None else output.as_cpu()
                results[name] = np.array(on_host.as_tensor())
            elif self._target is None:
                # A view: the server copies it before the next run writes there.
                results[name] = np.asarray(output.as_tensor())
            else:
                # DALI's memory cannot always be shared with the server's process; ours can.
                results[name] = images = self._rows(dtype, (len(files), *shape))
                output.as_tensor().copy_to_external(ctypes.c_void_p(images.pointer))
        return results

    def _item(self, status: int, file: _core.ImageBuffer) -> tuple[int, str, int, str]:
        """Return an image's status, and of a failed one the core's message."""
        if status == 0 or self._tolerant:
            return status, "", 0, ""
        image, geometry, codes = (np.empty((1, *shape), dtype) for _, dtype, shape in self._specs)
        ((code, message, *_),) = self._core.run([file], "rgb", image, geometry, codes)
        if code == status:
            return code, message, 0, ""
        return status, f"the DALI pipeline gave status {Status(status).label}", 0, ""


def _build(settings: StageSettings, target: Target | None) -> Any:
    from endcap import dali  # only where such a model runs

    dali.load()
    from nvidia.dali import types

    given = {name: value for name, value in settings.parameters if name != "on_error"}
    arguments: dict[str, Any] = dali_arguments(given)
    if "dtype" in arguments:
        arguments["dtype"] = getattr(types, arguments["dtype"])
    pipeline = dali.detection_preprocess(
        device="cpu" if target is None else "gpu",
        # A server hands over no more at once; without a batch dimension one image.
        batch_size=max(1, settings.max_batch_size),
        num_threads=settings.threads or len(os.sched_getaffinity(0)),
        device_id=None if target is None else target.device_id,
        # Nothing runs ahead: what is fed is what the next run works on.
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
        **arguments,
    )
    pipeline.build()
    return pipeline
