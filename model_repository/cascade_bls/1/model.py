"""Detects, cuts the detections out and classifies them, by calls of other models."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.bls import CallLoop, call_model_async, to_tensor
from endcap.python_backend.cascade import Cascade, CascadeJob
from endcap.python_backend.detect_steps import CASCADE_OUTPUTS, ENCODED_INPUT, complete_config
from endcap.python_backend.responses import ModelLog, respond_to_each
from endcap.triton.cascade_settings import read_cascade_settings


class TritonPythonModel:
    """All requests of an execution take each step together, and their calls run side by side."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Fill in the tensors that config.pbtxt leaves out."""
        return complete_config(config, ENCODED_INPUT, CASCADE_OUTPUTS)

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters; the models that they name are looked for with each request."""
        settings = read_cascade_settings(json.loads(args["model_config"]))
        self._log = ModelLog(args)
        self._cascade = Cascade(settings, call_model_async)
        self._loop = CallLoop()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request, in order."""
        return respond_to_each(
            requests, prepare=_job, run=self._run, finish=_output_tensors, log=self._log
        )

    def finalize(self) -> None:
        """End the threads of the calls."""
        self._loop.close()

    def _run(self, jobs: list[CascadeJob]) -> None:
        self._loop.run(self._cascade.run(jobs))


def _job(request: Any) -> CascadeJob:
    encoded = pb_utils.get_input_tensor_by_name(request, "encoded")
    return CascadeJob(request, encoded, request.requested_output_names())


def _output_tensors(job: CascadeJob) -> list[Any]:
    return [to_tensor(name, values) for name, values in job.outputs().items()]
