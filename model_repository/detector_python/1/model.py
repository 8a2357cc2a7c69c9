"""Runs an ONNX file on ONNX Runtime, with the input and the outputs that config.pbtxt names."""

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
        """Open the session that `model_file`, `provider` and `intra_op_threads` ask for."""
        config = json.loads(args["model_config"])
        given = {name: each["string_value"] for name, each in config["parameters"].items()}
        self._input = config["input"][0]["name"]
        self._types = [pb_utils.triton_string_to_numpy(o["data_type"]) for o in config["output"]]
        self._shapes = [[-1, *map(int, o["dims"])] for o in config["output"]]
        self._names = [output["name"] for output in config["output"]]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _threads(given.get("intra_op_threads", "0"))
        # Waiting threads sleep: the preprocessing of the next batch needs their cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        folder = (Path(args["model_repository"]) / args["model_version"]).resolve()
        file = folder / given.get("model_file", "model.onnx")
        providers = [_provider(given.get("provider", "auto"), args)]
        self._session = onnxruntime.InferenceSession(file, options, providers=providers)
        pb_utils.Logger.log_info(f"{args['model_name']} runs on {self._session.get_providers()[0]}")

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request, in order; a cancelled one gets that error."""
        waiting = [request for request in requests if not request.is_cancelled()]
        responses = iter(self._run([self._images(request) for request in waiting]))
        return [next(responses) if request in waiting else _cancelled() for request in requests]

    def _images(self, request: Any) -> Any:
        return pb_utils.get_input_tensor_by_name(request, self._input).as_numpy()

    def _run(self, batches: list[Any]) -> list[Any]:
        """Return the responses to several batches, from one run."""
        if not batches:
            return []
        images = batches[0] if len(batches) == 1 else np.concatenate(batches)
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        results = self._session.run(self._names, {self._input: images})
        parts = [
            np.split(np.ascontiguousarray(_shaped(result, shape), dtype), ends)
            for result, shape, dtype in zip(results, self._shapes, self._types, strict=True)
        ]
        return [
            pb_utils.InferenceResponse(list(map(pb_utils.Tensor, self._names, tensors)))
            for tensors in zip(*parts, strict=True)
        ]


def _shaped(result: Any, shape: list[int]) -> Any:
    """Return an output with the dims of config.pbtxt, or its own where those leave some open."""
    return result if -1 in shape[1:] else result.reshape(shape)


def _threads(text: str) -> int:
    if not text.isdecimal():
        raise pb_utils.TritonModelException(
            f"intra_op_threads is '{text}'; it must be a whole number, 0 for one per core."
        )
    return int(text)


def _provider(wanted: str, args: dict[str, str]) -> Any:
    there = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    on_gpu = args["model_instance_kind"] == "GPU"
    if wanted not in ("auto", "cpu", "cuda") or (wanted == "cuda" and not (there and on_gpu)):
        raise pb_utils.TritonModelException(
            f"provider is '{wanted}'; it must be cpu, auto, or, with onnxruntime-gpu installed and "
            "a GPU for the instance, cuda."
        )
    if wanted == "cpu" or not (there and on_gpu):
        return "CPUExecutionProvider"
    return ("CUDAExecutionProvider", {"device_id": args["model_instance_device_id"]})


def _cancelled() -> Any:
    error = pb_utils.TritonError("The request was cancelled.", pb_utils.TritonError.CANCELLED)
    return pb_utils.InferenceResponse([], error)
