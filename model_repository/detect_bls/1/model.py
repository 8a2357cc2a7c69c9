"""The steps of the ensemble `detect`, called from Python one after the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.bls import CallLoop, call_model_async
from endcap.python_backend.detect_steps import (
    DETECTION_OUTPUTS,
    ENCODED_INPUT,
    complete_config,
    detect,
    read_detect_settings,
)
from endcap.python_backend.responses import ModelLog, respond_to_each


class TritonPythonModel:
    """Requests of an execution go through their steps side by side."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Fill in the tensors that config.pbtxt leaves out."""
        return complete_config(config, ENCODED_INPUT, DETECTION_OUTPUTS)

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters; the models that they name are looked for with each request."""
        self._settings = read_detect_settings(json.loads(args["model_config"]))
        self._log = ModelLog(args)
        self._loop = CallLoop()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request, in order."""
        return respond_to_each(
            requests, prepare=_Job, run=self._run, finish=_Job.tensors, log=self._log
        )

    def finalize(self) -> None:
        """End the threads of the calls."""
        self._loop.close()

    def _run(self, jobs: list[_Job]) -> None:
        self._loop.run(self._detect_all(jobs))

    async def _detect_all(self, jobs: list[_Job]) -> None:
        detections = [
            detect(
                call_model_async,
                self._settings,
                encoded=pb_utils.get_input_tensor_by_name(job.request, "encoded"),
                wanted=job.request.requested_output_names(),
                request=job.request,
            )
            for job in jobs
        ]
        results = await asyncio.gather(*detections, return_exceptions=True)
        for job, result in zip(jobs, results, strict=True):
            job.result = result


class _Job:
    def __init__(self, request: Any) -> None:
        self.request = request
        self.result: Any = None

    def tensors(self) -> list[Any]:
        """Return the tensors of the response, or raise the error."""
        if isinstance(self.result, BaseException):
            raise self.result
        return list(self.result.values())
