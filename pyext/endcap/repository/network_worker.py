"""The process that runs or converts a network: see `trial_run`.

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
from numpy.typing import NDArray

from endcap._system.pip_commands import install_command
from endcap.repository.errors import RepositoryError, UnknownOperatorError, import_onnx

_Outputs = Mapping[str, NDArray[Any]]  # outputs by name, with the batch dimension

_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
# Two outputs for one image are the same but for the order of sums, and of rows with nearly equal
# scores: at most this share of their numbers is further apart than that, absolutely and relatively.
_DIFFERING_SHARE = 0.05
_SAME_WITHIN = 0.02
# What ONNX Runtime says of an operator that it does not have.
_NOT_THERE = (
    "No Op registered",
    "is not a registered function/op",
    "Could not find an implementation",
)
_MOST_OUTPUT_BYTES = 2**30
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Execute the request on standard input within its limits."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL))
    request = json.load(sys.stdin)
    if os.getppid() != request["parent"]:  # it has died before
        return
    _limit_memory(request["memory_bytes"])
    response_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no response
    try:
        response = _TASKS[request["task"]](request)
    except (RepositoryError, MemoryError) as error:
        message = str(error) if isinstance(error, RepositoryError) else "MemoryError"
        is_unknown = isinstance(error, UnknownOperatorError)
        response = {"error": message, "unknown_operator": is_unknown}
    with response_stream:
        json.dump(response, response_stream)


def _limit_memory(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _try(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the network on noise; its outputs are files in the folder `target`."""
    path, name = request["path"], request["input"]
    session = _open(path, request["file"])
    first, second = (_noise(request["dims"], request["dtype"], seed=seed) for seed in (0, 1))
    outputs = _run(session, path, name, first)
    for output, array in outputs.items():
        if not isinstance(array, np.ndarray):
            raise RepositoryError(
                f"{path} gives {output} as a {type(array).__name__}, and only tensors can "
                "be passed on; export it without what makes that, such as a classifier's ZipMap"
            )
    others = _run(session, path, name, second)
    for output, again in others.items():
        if again.shape != outputs[output].shape or not again.size:
            raise RepositoryError(
                f"{path} gives as many rows of {output} as it finds "
                f"({list(outputs[output].shape)} and {list(again.shape)} for two images of noise), "
                "and a model of Triton's has a fixed number; export it with one, filled up"
            )
    if request["several"]:
        both = _run(session, path, name, np.concatenate([first, second]))
        _check_shapes(outputs, both, path)
        _check_numbers((outputs, others), both, path)
    return {"outputs": _write_outputs(session, path, outputs, Path(request["target"]))}


def _write_outputs(
    session: Any, path: str, outputs: _Outputs, folder: Path
) -> list[dict[str, Any]]:
    """Write arrays of numbers to files; return name, shape and file of each output."""
    size = sum(array.nbytes for array in outputs.values())
    if size > _MOST_OUTPUT_BYTES:
        raise RepositoryError(
            f"{path} gives {size} bytes for one image, and {_MOST_OUTPUT_BYTES} are the most "
            "that postprocess can be planned for; export it with a smaller head"
        )
    # A symbolic dimension is a text there, or None.
    free = {
        output.name: [not isinstance(dim, int) for dim in output.shape]
        for output in session.get_outputs()
    }
    written = []
    for number, (name, array) in enumerate(outputs.items()):
        file = None if array.dtype.hasobject else f"{number}.npy"
        if file is not None:
            np.save(folder / file, array, allow_pickle=False)
        written.append(
            {"name": name, "is_free": free[name], "file": file, "shape": list(array.shape)}
        )
    return written


def _convert(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the network in half precision to the file `target`."""
    onnx: Any = import_onnx()
    path = request["path"]
    try:
        float16: Any = importlib.import_module("onnxruntime.transformers.float16")
    except ImportError as error:
        raise RepositoryError(
            f"--fp16 takes onnxruntime's converter, which cannot be imported ({error}); run "
            f"`{install_command('init')}`"
        ) from error
    try:
        half = float16.convert_float_to_float16(onnx.load(path), keep_io_types=False)
        onnx.save(half, request["target"])
    except Exception as error:  # of onnx and of the converter, without a common type
        raise RepositoryError(
            f"{path} cannot be converted to half precision ({_one_line(error)}); leave "
            "--fp16 out, or give a network that was exported in half precision"
        ) from error
    return {}


def _check_shapes(one: _Outputs, two: _Outputs, path: str) -> None:
    for name, array in one.items():
        shape = (2 * array.shape[0], *array.shape[1:]) if array.ndim else ()
        if two[name].shape != shape:
            raise RepositoryError(
                f"{path} claims to take any number of images, and gives {name} as "
                f"{list(array.shape)} for one and {list(two[name].shape)} for two; export it "
                "again, or give --max-batch 1"
            )


def _check_numbers(alone: tuple[_Outputs, _Outputs], both: _Outputs, path: str) -> None:
    for name, pair in both.items():
        if pair.ndim == 0 or pair.dtype.kind != "f":
            continue
        for number, outputs in enumerate(alone):
            one, other = (np.sort(each[0], axis=None) for each in (outputs[name], pair[number:]))
            is_close = np.isclose(one, other, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
            if np.mean(~is_close) > _DIFFERING_SHARE:
                raise RepositoryError(
                    f"{path} mixes the images of a batch: {name} of an image is another "
                    "beside a second image than alone; export it for evaluation, not for training, "
                    "or give --max-batch 1"
                )


def _open(path: str, file: str) -> Any:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(file, options, providers=providers)
    except Exception as error:  # ONNX Runtime's errors have no common type
        reason = f"{path} cannot be loaded by ONNX Runtime: {_one_line(error)}"
        if any(text in reason for text in _NOT_THERE):
            raise UnknownOperatorError(
                f"{reason}; a network with operators that only TensorRT has is for "
                "--runtime tensorrt"
            ) from error
        raise RepositoryError(f"{reason}; export it again") from error


def _run(session: Any, path: str, name: str, images: NDArray[Any]) -> _Outputs:
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, session.run(None, {name: images}), strict=True))
    except Exception as error:  # ONNX Runtime's errors have no common type
        count = "an image" if len(images) == 1 else f"{len(images)} images"
        raise RepositoryError(
            f"{path} cannot be run on {count} of {list(images.shape[1:])}: {_one_line(error)}; "
            "export it again" + ("" if len(images) == 1 else ", or give --max-batch 1")
        ) from error


def _noise(dims: list[int], dtype: str, *, seed: int) -> NDArray[Any]:
    """Of no picture; values as a network is used to, between 0 and 1, or 0 and 255 of integers."""
    values = np.random.default_rng(seed).random((1, *dims), np.float32)
    if dtype in ("uint8", "int8"):
        values *= 127 if dtype == "int8" else 255
    return values.astype(dtype)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


_TASKS = {"run": _try, "to_half": _convert}
