"""Detects, cuts the detections out and classifies them; sends one response for each."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.bls import call_model, to_tensor
from endcap.python_backend.cascade import CascadeStream
from endcap.python_backend.detect_steps import ENCODED_INPUT, STREAM_OUTPUTS, complete_config
from endcap.python_backend.responses import ModelLog, failed
from endcap.triton.cascade_settings import read_cascade_settings


class TritonPythonModel:
    """Works on one request at a time: Triton has no calls side by side for decoupled models."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Fill in the tensors that config.pbtxt leaves out."""
        config.set_model_transaction_policy({"decoupled": True})
        return complete_config(config, ENCODED_INPUT, STREAM_OUTPUTS)

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters; the models that they name are looked for with each request."""
        settings = read_cascade_settings(json.loads(args["model_config"]))
        self._log = ModelLog(args)
        self._stream = CascadeStream(settings, call_model)

    def execute(self, requests: list[Any]) -> None:
        """Send a response for each detection of each request, then the final flag."""
        for request in requests:
            sender = request.get_response_sender()
            last = None
            try:
                self._send_detections(request, sender)
            except Exception as error:
                last = failed(request, error, log=self._log)
            sender.send(last, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _send_detections(self, request: Any, sender: Any) -> None:
        encoded = pb_utils.get_input_tensor_by_name(request, "encoded")
        wanted = request.requested_output_names()
        for detection in self._stream.detections(request, encoded, sender.is_cancelled):
            tensors = [to_tensor(name, detection[name]) for name in wanted if name in detection]
            sender.send(pb_utils.InferenceResponse(tensors))
