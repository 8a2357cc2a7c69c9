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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap._pip_commands import install_command
from endcap.repository.batch_outputs import (
    LargestBatch,
    Outputs,
    check_shapes,
    explain_failure,
    find_largest_batch,
    find_mixed_images,
    is_blind,
    nms_box_tensors,
)
from endcap.repository.errors import RepositoryError, UnknownOperatorError, import_onnx

_MOST_CHANNELS = 4
_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
# What ONNX Runtime says of an operator that it does not have.
_NOT_THERE = (
    "No Op registered",
    "is not a registered function/op",
    "Could not find an implementation",
)
_MOST_OUTPUT_BYTES = 2**30
_ACTIVATIONS = ("Softmax", "Sigmoid")
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
    path, network = request["path"], _Network.open(request)
    first, second = (_noise(request, seed=seed) for seed in (0, 1))
    outputs = network.run(first)
    for output, array in outputs.items():
        if not isinstance(array, np.ndarray):
            raise RepositoryError(
                f"{path} gives {output} as a {type(array).__name__}, and only tensors can "
                "be passed on; export it without what makes that, such as a classifier's ZipMap"
            )
    others = network.run(second)
    shapes = {
        output: [list(outputs[output].shape), list(again.shape)]
        for output, again in others.items()
        if again.shape != outputs[output].shape or not again.size
    }
    batch_error, largest = "", LargestBatch(request["images"])
    if request["images"] > 2 and not shapes:
        largest = _find_largest_batch(request, network, first, outputs)
    if min(request["images"], largest.images) > 1:
        try:
            both = network.run(np.concatenate([first, second]))
            check_shapes(outputs, both, 2)
        except RepositoryError as error:
            largest = LargestBatch(1, explain_failure(error, 2))
        else:
            batch_error = "" if shapes else find_mixed_images((outputs, others), both, path)
    folder = Path(request["target"])
    return {
        "outputs": _write_outputs(network.session, path, outputs, folder),
        "varying": shapes,
        "batch_error": batch_error,
        "images": largest.images,
        "images_reason": largest.reason,
    }


def _find_largest_batch(
    request: Mapping[str, Any], network: _Network, image: NDArray[Any], outputs: Outputs
) -> LargestBatch:
    """Return the most equal images that the network treats alike, at most those of the request."""
    largest = find_largest_batch(network.run, image, outputs, request["images"])
    if largest.images == 1 or not is_blind(outputs) or not request["is_whole"]:
        return largest
    # Without a detection rows that the network leaves out look like the others.
    onnx: Any = import_onnx()
    model = onnx.load(request["file"])
    boxes = nms_box_tensors(model)
    if not boxes:
        return largest
    del model.graph.output[:]
    for name in boxes:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    inner = _Network.open(request, model.SerializeToString())
    many = inner.run(np.repeat(image, largest.images, axis=0))
    suppressed = sum(array.shape[0] for array in many.values())
    if suppressed >= largest.images:
        return largest
    reason = f"it suppresses {suppressed} of {largest.images} images"
    return LargestBatch(suppressed, reason)


def _count_columns(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last dimensions, where greater than 1, of rows after a softmax or sigmoid.

    They are those on the way to the output `scores`, the last on each way.
    """
    onnx: Any = import_onnx()
    model = onnx.load(request["file"])
    tensors = _find_activations(model.graph, request["scores"])
    columns: dict[str, list[int]] = {activation: [] for activation in _ACTIVATIONS}
    if tensors:
        del model.graph.output[:]
        for name in tensors:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        network = _Network.open(request, model.SerializeToString())
        for name, array in network.run(_noise(request, seed=0)).items():
            if array.ndim in (2, 3) and array.shape[-1] > 1:
                columns[tensors[name]].append(array.shape[-1])
    return {"columns": columns}


def _find_activations(graph: Any, output: str) -> dict[str, str]:
    """Return the operators of _ACTIVATIONS from which an output comes, by their outputs."""
    producers = {name: node for node in graph.node for name in node.output}
    found: dict[str, str] = {}
    seen, waiting = {output}, [output]
    while waiting:
        name = waiting.pop()
        node = producers.get(name)
        if node is None:
            continue
        if node.op_type in _ACTIVATIONS:
            found[name] = node.op_type
            continue
        new = {*_inputs(node)} - seen
        seen |= new
        waiting += new
    return found


def _inputs(node: Any) -> Iterator[str]:
    """Yield the inputs of a node and of those in its graphs."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            for inner in graph.node:
                yield from _inputs(inner)


def _write_outputs(session: Any, path: str, outputs: Outputs, folder: Path) -> list[dict[str, Any]]:
    """Write arrays of numbers to files; return name, shape and file of each output."""
    size = sum(array.nbytes for array in outputs.values())
    if size > _MOST_OUTPUT_BYTES:
        raise RepositoryError(
            f"{path} gives {size} bytes for one image, and {_MOST_OUTPUT_BYTES} are the most "
            "that postprocess can be planned for; export it with a smaller head"
        )
    # A symbolic dimension is a text there, or None.
    dynamic = {
        output.name: [not isinstance(dim, int) for dim in output.shape]
        for output in session.get_outputs()
    }
    written = []
    for number, (name, array) in enumerate(outputs.items()):
        file = None if array.dtype.hasobject else f"{number}.npy"
        if file is not None:
            np.save(folder / file, array, allow_pickle=False)
        written.append(
            {"name": name, "is_dynamic": dynamic[name], "file": file, "shape": list(array.shape)}
        )
    return written


def _convert(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the network in half precision to the file `target`."""
    onnx: Any = import_onnx()
    path = request["path"]
    try:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
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


def _open(path: str, file: str | bytes) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
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


@dataclass(frozen=True)
class _Network:
    """A session and how it is fed; `constants` are the inputs beside the image."""

    path: str
    session: Any
    input: str
    has_batch: bool
    constants: dict[str, NDArray[Any]]

    @classmethod
    def open(cls, request: Mapping[str, Any], model: bytes | None = None) -> _Network:
        """Open the network of a request, or a model made of it."""
        constants = {
            name: np.array(given["values"], given["dtype"])
            for name, given in request["constants"].items()
        }
        session = _open(request["path"], model or request["file"])
        return cls(request["path"], session, request["input"], request["has_batch"], constants)

    def run(self, images: NDArray[Any]) -> Outputs:
        """Return the outputs for a batch of images."""
        names = [output.name for output in self.session.get_outputs()]
        fed = {**self.constants, self.input: images if self.has_batch else images[0]}
        try:
            return dict(zip(names, self.session.run(None, fed), strict=True))
        except Exception as error:  # ONNX Runtime's errors have no common type
            count = "an image" if len(images) == 1 else f"{len(images)} images"
            raise RepositoryError(
                f"{self.path} cannot be run on {count} of {list(images.shape[1:])}: "
                f"{_one_line(error)}; export it again"
                + (", or a --size of multiples of 32" if _is_odd(images.shape[1:]) else "")
            ) from error


def _noise(request: Mapping[str, Any], *, seed: int) -> NDArray[Any]:
    """Return random values in the range of a network's images, from 0 to `largest`."""
    values = np.random.default_rng(seed).random((1, *request["dims"]), np.float32)
    noise: NDArray[Any] = (values * request["largest"]).astype(request["dtype"])
    return noise


def _is_odd(dims: tuple[int, ...]) -> bool:
    """Return whether a side is no multiple of the stride that networks usually have."""
    return any(dim % 32 for dim in dims if dim > _MOST_CHANNELS)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


_TASKS = {"run": _try, "count_columns": _count_columns, "to_half": _convert}
