"""Trial run of a network in a separate process, which its limits end."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
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
    # A model that is edited in memory does not find weights in other files.
    is_whole = not network.external_files
    has_ids = any(spec.data_type in ("INT32", "INT64") for spec in network.outputs)
    activations = _find_activations(network.model.graph) if is_whole and has_ids else {}
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name:
        for number, batch in enumerate(batches):
            fed = batch if image.has_batch else batch[0]
            np.savez(Path(name) / f"input_{number}.npz", fed, *image.constants.values())
        request = {
            "inputs": [image.name, *image.constants],
            "runs": len(batches),
            "more_outputs": [*activations],
            "folder": name,
        }
        response = _run_worker(network, request, options)
        results = [_load(Path(name) / f"output_{n}.npz", response) for n in range(len(batches))]
    if error := next((each["error"] for each in response["runs"][:2] if "error" in each), ""):
        _refuse_memory(network, options, error)
        is_odd = any(dim % 32 for dim in image.dims if dim > _MAX_CHANNELS)  # not the usual stride
        raise RepositoryError(
            f"{network.path} cannot be run on an image of {list(image.dims)}: {error}; export it "
            f"again{', or a --size of multiples of 32' if is_odd else ''}"
        )
    first, second = (
        {spec.name: each[spec.name] for spec in network.outputs} for each in results[:2]
    )
    outputs = tuple(
        _read_output(name, array, second[name], image, response) for name, array in first.items()
    )
    for output in outputs:
        if not output.data_type and not output.values.size:
            raise RepositoryError(
                f"{network.path} gives {output.name} as no tensor, and only tensors can be passed "
                "on; export it without what makes that, such as a classifier's ZipMap"
            )
    varying = [name for name in first if first[name].shape != second[name].shape]
    varying += [name for name, array in first.items() if not array.size and name not in varying]
    rows_error = ""
    if varying:
        counts = " and ".join(str(list(each[varying[0]].shape)) for each in (first, second))
        rows_error = (
            f"{network.path} gives as many rows of {varying[0]} as it finds ({counts} for two "
            "images of noise); export it with a fixed number, filled up"
        )
    trial = Trial(outputs, rows_error, score_columns=_count_scores(activations, results[0]))
    if len(batches) < 3:
        return trial
    if "error" in response["runs"][2]:
        return replace(trial, one_image="the trial run fails with 2 images at once")
    both = {name: results[2][name] for name in first}
    for name, array in first.items():
        expected = (2 * array.shape[0], *array.shape[1:]) if array.ndim else ()
        if not varying and both[name].shape != expected:
            reason = (
                f"{name} is {list(array.shape)} for one image and {list(both[name].shape)} for 2"
            )
            return replace(trial, one_image=reason)
    differing = {
        number
        for name, array in both.items()
        if not varying and array.ndim and array.dtype.kind == "f"
        for number, half in enumerate(np.split(array, 2))
        if _differ((first, second)[number][name], half)
    }
    if 0 in differing:
        mixed = (
            f"{network.path} mixes the images of a batch: an output of an image is another next to "
            "a second image than alone; export it for evaluation, not for training, or give "
            "--max-batch 1"
        )
        return replace(trial, batch_error=mixed)
    left_out = "in a batch of two images the second gets other outputs than alone"
    return replace(trial, one_image=left_out if differing else "")


def _load(file: Path, response: Mapping[str, Any]) -> Arrays:
    if not file.exists():
        return {}
    with np.load(file) as arrays:
        return {name: arrays[f"arr_{number}"] for number, name in enumerate(response["names"])}


def _read_output(
    name: str,
    array: NDArray[Any],
    other: NDArray[Any],
    image: NetworkInput,
    response: Mapping[str, Any],
) -> NetworkOutput:
    number = response["names"].index(name)
    dynamic = tuple(response["dynamic"][number])
    # The output for one image has a batch dimension of 1, or none at all.
    has_batch = array.shape[:1] == (1,)
    item = array[0] if has_batch else array
    # The first of one or two dimensions that is dynamic, and not a batch.
    has_rows = image.batch == 1 and array.ndim in (1, 2) and dynamic[:1] == (True,)
    return NetworkOutput(
        name=name,
        data_type=TRITON_TYPES.get(response["runs"][0]["types"][number], ""),
        has_batch=has_batch,
        is_dynamic=dynamic,
        values=item.astype(np.float64),
        rows_vary=array.shape != other.shape or not array.size or has_rows,
    )


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
    network: OnnxFile, request: Mapping[str, Any], options: InitOptions
) -> dict[str, Any]:
    """Return the response of `network_worker`, which ends with this call and this process."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise RepositoryError(
            "trying the network takes onnxruntime, which cannot be imported (it is not "
            f"installed); run `{install_command('init')}`"
        )
    whole = {
        "path": str(network.path),
        "file": str(network.file),
        "memory_bytes": int(options.trial_memory * _GIB),
        "parent": os.getpid(),
        **request,
    }
    with (
        tempfile.TemporaryFile() as stderr,
        # A separate session: Ctrl-C is for this process, which then ends the other one.
        subprocess.Popen(
            worker_command("endcap.repository.network_worker"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,
            env={**os.environ, "TMPDIR": request["folder"]},  # ONNX Runtime leaves files there
        ) as process,
    ):  # fmt: skip
        try:
            output, _ = process.communicate(json.dumps(whole).encode(), options.trial_timeout)
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(
                f"{network.path} is not done with its trial run after {options.trial_timeout:g} "
                "seconds; give --trial-timeout more seconds if the network is that slow here"
            ) from error
        finally:
            process.kill()
        stderr.seek(0)
        printed = stderr.read().decode(errors="replace")
    code = process.returncode
    last_line = printed.strip()[-_SHOWN_CHARACTERS:].rpartition("\n")[2].rstrip(".")
    response: dict[str, Any] = json.loads(output) if code == 0 else {"error": last_line}
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
