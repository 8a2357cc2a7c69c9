"""Trial run of a network in a separate process, which its limits end."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap._pip_commands import install_command
from endcap._python_process import worker_command
from endcap.repository.errors import OUT_OF_MEMORY, RepositoryError, UnknownOperatorError
from endcap.repository.network_tensors import NetworkInput, NetworkOutput
from endcap.repository.onnx_file import OnnxFile, walk_nodes
from endcap.repository.options import InitOptions
from endcap.triton.tensor_spec import TRITON_TYPES

_GIB = 2**30
_MAX_CHANNELS = 4
_ACTIVATIONS = ("Softmax", "Sigmoid")
_SHOWN_CHARACTERS = 500  # of what a process that crashed has printed, the last
# Outputs count as equal if at most _DIFFERING_SHARE of the numbers outside padding differ by more
# than _SAME_WITHIN, absolutely and relatively: sums may be reordered, rows of nearly equal scores
# may change places, and a missing row differs in all its numbers.
_DIFFERING_SHARE = 0.25
_SAME_WITHIN = 0.02

Arrays = Mapping[str, NDArray[Any]]  # outputs by name, with the batch dimension


@dataclass(frozen=True)
class Trial:
    """What a network gave for noise."""

    outputs: tuple[NetworkOutput, ...]
    rows_error: str = ""  # why its outputs are of no fixed shape
    batch_error: str = ""  # why the images of its batches are not served
    one_image: str = ""  # why it takes one image at once, whatever it declares
    # The operator that makes scores of detections inside, and how many it makes for each box.
    score_columns: tuple[str, int] | None = None


def try_network(
    network: OnnxFile, image: NetworkInput, options: InitOptions, *, in_batch: bool
) -> Trial:
    """Run the network on one image of noise, on another, and in a batch on both.

    Raises:
        UnknownOperatorError: ONNX Runtime lacks an operator.
        RepositoryError: The network cannot be loaded or run, gives no tensors, or exceeds a limit.
    """
    takes_bytes = image.normalization is not None and image.normalization.takes_bytes
    largest = {"UINT8": 255, "INT8": 127}.get(image.data_type, 255 if takes_bytes else 1)
    noise = np.random.default_rng(0).random((2, *image.dims), np.float32) * np.float32(largest)
    images = noise.astype(image.dtype)
    batches = [images[:1], images[1:]]
    if in_batch and image.batch is None:
        batches.append(images)
    feeds = [
        [batch if image.has_batch else batch[0], *image.constants.values()] for batch in batches
    ]
    # A model that is edited in memory does not find weights in other files.
    is_whole = not network.external_files
    has_ids = any(spec.data_type in ("INT32", "INT64") for spec in network.outputs)
    activations = _find_activations(network.model.graph) if is_whole and has_ids else {}
    response, results = _run_worker(network, image, feeds, [*activations], options)
    runs = response["runs"]
    if error := next((each["error"] for each in runs[:2] if "error" in each), ""):
        _refuse_memory(network, options, error)
        is_odd = any(dim % 32 for dim in image.dims if dim > _MAX_CHANNELS)  # not the usual stride
        raise RepositoryError(
            f"{network.path} cannot be run on an image of {list(image.dims)}: {error}; export it "
            f"again{', or a --size of multiples of 32' if is_odd else ''}"
        )
    first, second = (
        {spec.name: each[spec.name] for spec in network.outputs} for each in results[:2]
    )
    outputs = []
    for (name, array), data_type, dynamic in zip(
        first.items(), runs[0]["types"], response["dynamic"], strict=False
    ):
        if data_type not in TRITON_TYPES and not array.size:
            raise RepositoryError(
                f"{network.path} gives {name} as no tensor, and only tensors can be passed "
                "on; export it without what makes that, such as a classifier's ZipMap"
            )
        has_batch = array.shape[:1] == (1,)  # else the output for one image has no batch dimension
        # The first of one or two dimensions that is dynamic, and not a batch.
        has_rows = image.batch == 1 and array.ndim in (1, 2) and dynamic[:1] == [True]
        output = NetworkOutput(
            name=name,
            data_type=TRITON_TYPES.get(data_type, ""),
            has_batch=has_batch,
            is_dynamic=tuple(dynamic),
            values=(array[0] if has_batch else array).astype(np.float64),
            rows_vary=array.shape != second[name].shape or not array.size or has_rows,
        )
        outputs.append(output)
    varying = [n for n, each in first.items() if each.shape != second[n].shape or not each.size]
    rows_error = ""
    if varying:
        counts = " and ".join(str(list(each[varying[0]].shape)) for each in (first, second))
        rows_error = (
            f"{network.path} gives as many rows of {varying[0]} as it finds ({counts} for two "
            "images of noise); export it with a fixed number, filled up"
        )
    score_columns = _count_scores(activations, results[0])
    trial = Trial(tuple(outputs), rows_error, score_columns=score_columns)
    if len(runs) == 3 and "error" in runs[2]:
        return replace(trial, one_image="the trial run fails with 2 images at once")
    if len(runs) < 3 or varying:
        return trial
    differing = set()
    for name, array in first.items():
        both = results[2][name]
        if both.shape != ((2 * array.shape[0], *array.shape[1:]) if array.ndim else ()):
            reason = f"{name} is {list(array.shape)} for one image and {list(both.shape)} for 2"
            return replace(trial, one_image=reason)
        if array.ndim and array.dtype.kind == "f":
            alone = zip((array, second[name]), np.split(both, 2), strict=True)
            differing |= {number for number, pair in enumerate(alone) if _differ(*pair)}
    if 0 in differing:
        mixed = (
            f"{network.path} mixes the images of a batch: an output of an image is another next to "
            "a second image than alone; export it for evaluation, not for training, or give "
            "--max-batch 1"
        )
        return replace(trial, batch_error=mixed)
    left_out = "in a batch of two images the second gets other outputs than alone"
    return replace(trial, one_image=left_out if differing else "")


def _differ(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether outputs for one image are not the same."""
    first, second = (np.sort(each.astype(np.float64), axis=None) for each in (one, other))
    values, counts = np.unique(first, return_counts=True)
    fill = values[counts.argmax()]
    counted = (first != fill) | (second != fill)
    if first.size == 1:  # a number of detections, for example
        counted[:] = True
    is_close = np.isclose(first, second, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
    differing = np.count_nonzero(~is_close & counted)
    return bool(differing > _DIFFERING_SHARE * np.count_nonzero(counted))


def has_suppression(model: Any) -> bool:
    """Return whether an onnx.ModelProto suppresses detections."""
    return any(node.op_type == "NonMaxSuppression" for node in walk_nodes(model.graph))


def _find_activations(graph: Any) -> dict[str, str]:
    """Return the last operators of _ACTIVATIONS on all ways to the outputs, by their outputs."""
    producers = {name: node for node in graph.node for name in node.output}
    waiting = [output.name for output in graph.output]
    found, seen = {}, {*waiting}
    while waiting:
        name = waiting.pop()
        node = producers.get(name)
        if node is not None and node.op_type in _ACTIVATIONS:
            found[name] = str(node.op_type)
        elif node is not None:
            # Of graphs inside a node, too.
            inner = (
                each for a in node.attribute for g in (a.g, *a.graphs) for each in walk_nodes(g)
            )
            new = {each for one in (node, *inner) for each in one.input} - seen
            seen |= new
            waiting += new
    return found


def _count_scores(activations: Mapping[str, str], arrays: Arrays) -> tuple[str, int] | None:
    """Return the operator and the number of scores of each box, a softmax before sigmoids."""
    for operator in _ACTIVATIONS:
        found = [arrays[name] for name, each in activations.items() if each == operator]
        counts = {each.shape[-1] for each in found if each.ndim in (2, 3)} - {1}
        if counts:
            return (operator, counts.pop()) if len(counts) == 1 else None
    return None


def _run_worker(
    network: OnnxFile,
    image: NetworkInput,
    feeds: Sequence[Sequence[NDArray[Any]]],
    more_outputs: Sequence[str],
    options: InitOptions,
) -> tuple[dict[str, Any], list[Arrays]]:
    """Return the response of `network_worker` and the outputs of each run.

    The process ends with this call and this process.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise RepositoryError(
            "trying the network takes onnxruntime, which cannot be imported (it is not "
            f"installed); run `{install_command('init')}`"
        )
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as folder:
        for number, arrays in enumerate(feeds):
            np.savez(Path(folder) / f"input_{number}.npz", *arrays)
        request = {
            "path": str(network.path),
            "file": str(network.file),
            "memory_bytes": int(options.trial_memory * _GIB),
            "parent": os.getpid(),
            "folder": folder,
            "runs": len(feeds),
            "inputs": [image.name, *image.constants],
            "more_outputs": more_outputs,
        }
        try:
            done = subprocess.run(
                worker_command("endcap.repository.network_worker"),
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=options.trial_timeout,
                start_new_session=True,  # Ctrl-C is for this process, which then ends the other one
                env={**os.environ, "TMPDIR": folder},  # ONNX Runtime leaves files there
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(
                f"{network.path} is not done with its trial run after {options.trial_timeout:g} "
                "seconds; give --trial-timeout more seconds if the network is that slow here"
            ) from error
        response = _read_response(network, options, done)
        results: list[Arrays] = []
        for number, run in enumerate(response["runs"]):
            if "error" in run:
                results.append({})
                continue
            with np.load(Path(folder) / f"output_{number}.npz") as arrays:
                names = enumerate(response["names"])
                results.append({name: arrays[f"arr_{k}"] for k, name in names})
    return response, results


def _read_response(
    network: OnnxFile, options: InitOptions, done: subprocess.CompletedProcess[bytes]
) -> dict[str, Any]:
    """Return what the worker wrote; RepositoryError for an error or a crash."""
    code, printed = done.returncode, done.stderr.decode(errors="replace")
    last_line = printed.strip()[-_SHOWN_CHARACTERS:].rpartition("\n")[2].rstrip(".")
    response: dict[str, Any] = json.loads(done.stdout) if code == 0 else {"error": last_line}
    if "error" not in response:
        return response
    message = response["error"]
    _refuse_memory(
        network, options, OUT_OF_MEMORY[0] if code == -signal.SIGKILL else message + printed
    )
    if code != 0:
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise RepositoryError(
            f"{network.path} has crashed ONNX Runtime in its trial run ({end}: {message}); export "
            "it again"
        )
    raise (UnknownOperatorError if response["unknown_operator"] else RepositoryError)(message)


def _refuse_memory(network: OnnxFile, options: InitOptions, text: str) -> None:
    """Raise RepositoryError where a text says that memory ended."""
    if any(each in text for each in OUT_OF_MEMORY):
        raise RepositoryError(
            f"{network.path} takes more than {options.trial_memory:g} GiB of memory in its trial "
            "run; give --trial-memory more GiB, or export the network for a smaller size"
        )
