"""Runs model.onnx on ONNX Runtime: `images` float32 [N, 3, 640, 640] -> `head` [N, 10, 8400]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One ONNX Runtime session; all requests of a batch go through it in one run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Opens the session; `intra_op_threads` of config.pbtxt sets its threads."""
        parameters = json.loads(args["model_config"])["parameters"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _intra_op_threads(parameters)
        # Waiting threads sleep: the preprocessing of the next batch needs their cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        folder = Path(args["model_repository"]) / args["model_version"]
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order; a cancelled request is answered as such."""
        waiting = [request for request in requests if not request.is_cancelled()]
        heads = iter(self._run([_images(request) for request in waiting]))
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("head", next(heads))])
            if request in waiting
            else _cancelled()
            for request in requests
        ]

    def _run(self, batches: list[Any]) -> list[Any]:
        """The heads of several batches, from one run."""
        if not batches:
            return []
        images = batches[0] if len(batches) == 1 else np.concatenate(batches)
        (head,) = self._session.run(["head"], {"images": images})
        ends = np.cumsum([len(batch) for batch in batches])
        return np.split(head, ends[:-1])


def _images(request: Any) -> Any:
    return pb_utils.get_input_tensor_by_name(request, "images").as_numpy()


def _intra_op_threads(parameters: dict[str, dict[str, str]]) -> int:
    text = parameters.get("intra_op_threads", {}).get("string_value", "0")
    if not text.isdecimal():
        raise pb_utils.TritonModelException(
            f"intra_op_threads is '{text}'; it must be a whole number, 0 for one per core."
        )
    return int(text)


def _cancelled() -> Any:
    error = pb_utils.TritonError("The request was cancelled.", pb_utils.TritonError.CANCELLED)
    return pb_utils.InferenceResponse([], error)
