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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import (
    OUT_OF_MEMORY,
    RepositoryError,
    UnknownOperatorError,
    import_onnx,
)

Outputs = Mapping[str, NDArray[Any]]  # outputs by name, with the batch dimension

_MAX_CHANNELS = 4
_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
# What ONNX Runtime says of an operator that it does not have.
_NOT_THERE = (
    "No Op registered",
    "is not a registered function/op",
    "Could not find an implementation",
)
_ACTIVATIONS = ("Softmax", "Sigmoid")
# Two outputs for one image are the same but for the order of sums, and of rows with nearly equal
# scores: at most this share of the numbers that stand out from filled-up rows is further apart than
# that, absolutely and relatively. In a row that the network leaves out all numbers differ.
_DIFFERING_SHARE = 0.25
_SAME_WITHIN = 0.02
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Execute the request on standard input within its limits."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL))
    request = json.load(sys.stdin)
    if os.getppid() != request["parent"]:  # it has died before
        return
    _limit_memory(request["memory_bytes"])
    response_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not the response
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
    path, images, boxes = request["path"], request["images"], request["nms_boxes"]
    network = _Network.open(request, _with_outputs(request, boxes) if boxes else None)
    first, second = (_noise(request, seed=seed) for seed in (0, 1))
    outputs, others = (
        {name: given[name] for name in request["outputs"]}
        for given in map(network.run, (first, second))
    )
    for output, array in outputs.items():
        if not isinstance(array, np.ndarray):
            raise RepositoryError(
                f"{path} gives {output} as a {type(array).__name__}, and only tensors can "
                "be passed on; export it without what makes that, such as a classifier's ZipMap"
            )
    shapes = {
        output: [list(outputs[output].shape), list(again.shape)]
        for output, again in others.items()
        if again.shape != outputs[output].shape or not again.size
    }
    batch_error, reason, count = "", "", images
    try:
        if images > 2 and not shapes:
            many = network.run(np.repeat(first, images, axis=0))
            images, reason = _count_served(outputs, many, boxes, images)
        count = min(images, 2)
        if images > 1:
            both = network.run(np.concatenate([first, second]))
            _check_shapes(outputs, both, 2)
            batch_error = "" if shapes else _find_mixed_images((outputs, others), both, path)
    except _BatchShapeError as error:
        images, reason = 1, str(error)
    except RepositoryError as error:
        images, reason = 1, f"the trial run fails with {count} images at once"
        if any(text in str(error) for text in OUT_OF_MEMORY):
            reason += " for lack of memory, of which --trial-memory gives it more"
    folder = Path(request["target"])
    return {
        "outputs": _write_outputs(network.session, outputs, folder),
        "varying": shapes,
        "batch_error": batch_error,
        "images": images,
        "images_reason": reason,
    }


class _BatchShapeError(RepositoryError):
    """An output does not have a row for each image."""


def _count_served(one: Outputs, many: Outputs, boxes: Sequence[str], count: int) -> tuple[int, str]:
    """Return how many images of a batch of equal ones are treated alike, and why no more.

    Args:
        one: The outputs for one image.
        many: Those for `count` images, with the inputs of suppression.
        boxes: The names of the latter. Without a detection rows that the network leaves out look
            like the others.
        count: How many images there are.
    """
    _check_shapes(one, many, count)
    suppressed = sum(many[name].shape[0] for name in boxes)
    if boxes and suppressed < count:
        return suppressed, f"it suppresses {suppressed} of {count} images"
    same = count
    for name, array in one.items():
        if array.dtype.kind in "biuf" and array.ndim:
            rows = many[name].reshape(count, -1)
            same = next((n for n in range(1, same) if _differ(rows[0], rows[n])), same)
    reason = f"in a batch of {count} equal images only {same} get the same outputs"
    return same, reason if same < count else ""


def _check_shapes(one: Outputs, many: Outputs, count: int) -> None:
    """Raise _BatchShapeError unless `count` images give `count` times the rows of one."""
    for name, array in one.items():
        shape = (count * array.shape[0], *array.shape[1:]) if array.ndim else ()
        if many[name].shape != shape:
            raise _BatchShapeError(
                f"{name} is {list(array.shape)} for one image and {list(many[name].shape)} for "
                f"{count}"
            )


def _find_mixed_images(alone: tuple[Outputs, Outputs], both: Outputs, path: str) -> str:
    """Return a message where an image's numbers depend on the other image of its batch, else ""."""
    for name, array in alone[0].items():
        if array.ndim == 0 or array.dtype.kind != "f":
            continue
        for number, outputs in enumerate(alone):
            rows = len(array)
            if _differ(outputs[name], both[name][number * rows : (number + 1) * rows]):
                return (
                    f"{path} mixes the images of a batch: {name} of an image is another "
                    "next to a second image than alone; export it for evaluation, not for "
                    "training, or give --max-batch 1"
                )
    return ""


def _differ(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether outputs for one image are not the same."""
    first, second = (np.sort(each.astype(np.float64), axis=None) for each in (one, other))
    values, counts = np.unique(first, return_counts=True)
    if not len(values):
        return False
    fill = values[counts.argmax()]
    counted = (first != fill) | (second != fill)
    if first.size == 1:  # a number of detections, for example
        counted[:] = True
    is_close = np.isclose(first, second, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
    differing = np.count_nonzero(~is_close & counted)
    return bool(differing > _DIFFERING_SHARE * np.count_nonzero(counted))


def _with_outputs(request: Mapping[str, Any], tensors: Iterable[str]) -> bytes:
    """Return the network with further tensors as outputs."""
    onnx: Any = import_onnx()
    model = onnx.load(request["file"])
    for name in {*tensors} - {output.name for output in model.graph.output}:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    return bytes(model.SerializeToString())


def _count_columns(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last dimensions, where greater than 1, of rows after a softmax or sigmoid.

    They are those on the way to the output `scores`, the last on each way.
    """
    onnx: Any = import_onnx()
    tensors = _find_activations(onnx.load(request["file"]).graph, request["scores"])
    columns: dict[str, list[int]] = {activation: [] for activation in _ACTIVATIONS}
    if tensors:
        network = _Network.open(request, _with_outputs(request, tensors))
        for name, array in network.run(_noise(request, seed=0)).items():
            if name in tensors and array.ndim in (2, 3) and array.shape[-1] > 1:
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


def _write_outputs(session: Any, outputs: Outputs, folder: Path) -> list[dict[str, Any]]:
    """Write arrays of numbers to files; return name, shape and file of each output."""
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
    """A session and how it is fed; `constants` are the inputs next to the image."""

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
    """Return whether a side is not a multiple of the stride that networks usually have."""
    return any(dim % 32 for dim in dims if dim > _MAX_CHANNELS)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


_TASKS = {"run": _try, "count_columns": _count_columns}
