"""The process that runs a network: see `trial_run`.

Its standard input is a JSON object, the request; it writes one to standard output, the response.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from endcap.repository.errors import RepositoryError, UnknownOperatorError, import_onnx

_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
# What ONNX Runtime says of an operator that it does not have.
_NOT_THERE = (
    "No Op registered",
    "is not a registered function/op",
    "Could not find an implementation",
)
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Execute the request on standard input within its limits."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL))
    request = json.load(sys.stdin)
    if os.getppid() != request["parent"]:  # it has died before
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = request["memory_bytes"]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    response_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not the response
    try:
        response = _run(request)
    except (RepositoryError, MemoryError) as error:
        message = str(error) if isinstance(error, RepositoryError) else "MemoryError"
        is_unknown = isinstance(error, UnknownOperatorError)
        response = {"error": message, "unknown_operator": is_unknown}
    with response_stream:
        json.dump(response, response_stream)


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the network on the inputs in `folder`, and write its outputs there, by their numbers."""
    session, folder = _open(request), Path(request["folder"])
    runs: list[dict[str, Any]] = []
    for number in range(request["runs"]):
        with np.load(folder / f"input_{number}.npz") as arrays:
            fed = {name: arrays[f"arr_{k}"] for k, name in enumerate(request["inputs"])}
        try:
            outputs = session.run(None, fed)
        except Exception as error:  # ONNX Runtime's errors have no common type
            runs.append({"error": _one_line(error)})
            continue
        # Of what is not a tensor, such as a list, nothing, of a type that no network has.
        arrays = [each if isinstance(each, np.ndarray) else np.empty(0, "S1") for each in outputs]
        numbers = (np.zeros(each.shape) if each.dtype.kind in "OS" else each for each in arrays)
        np.savez(folder / f"output_{number}.npz", *numbers)
        runs.append({"types": [each.dtype.name for each in arrays]})
    declared = session.get_outputs()
    return {
        "runs": runs,
        "names": [each.name for each in declared],
        # A symbolic dimension is a text there, or None.
        "dynamic": [[not isinstance(dim, int) for dim in each.shape or ()] for each in declared],
    }


def _open(request: Mapping[str, Any]) -> Any:
    """Return a session of the network, with further tensors as outputs where they are wanted."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    network: str | bytes = request["file"]
    if request["more_outputs"]:
        onnx: Any = import_onnx()
        model = onnx.load(network)
        for name in {*request["more_outputs"]} - {output.name for output in model.graph.output}:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        network = bytes(model.SerializeToString())
    try:
        return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common type
        reason = f"{request['path']} cannot be loaded by ONNX Runtime: {_one_line(error)}"
        if any(text in reason for text in _NOT_THERE):
            raise UnknownOperatorError(
                f"{reason}; a network with operators that only TensorRT has is for "
                "--runtime tensorrt"
            ) from error
        raise RepositoryError(f"{reason}; export it again") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
