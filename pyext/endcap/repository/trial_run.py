"""Trial run of a network in a separate process, which its limits end."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endcap._pip_commands import install_command
from endcap._python_process import worker_command
from endcap.errors import InvalidArgumentError
from endcap.repository.errors import OUT_OF_MEMORY, RepositoryError, UnknownOperatorError
from endcap.repository.network_tensors import NetworkInput, NetworkOutput, ScoreColumns
from endcap.repository.onnx_file import OnnxFile
from endcap.triton.tensor_spec import TRITON_TYPES

_GIB = 2**30
_MIN_MEMORY_GIB = 0.5  # of Python with ONNX Runtime alone
_MAX_MEMORY_GIB = 2**20
_MAX_SECONDS = 1_000_000  # poll(2) counts milliseconds in an int
# Operators of networks that may do for a part of a batch what they do for an image.
_BY_IMAGE = (
    *("NonMaxSuppression", "NonZero", "TopK", "ScatterND", "ScatterElements"),
    *("If", "Loop", "Scan"),
)
_SHOWN_CHARACTERS = 500  # of what a process that crashed has printed, the last


@dataclass(frozen=True)
class TrialLimits:
    """What the process that runs a network may take.

    Attributes:
        timeout_s: Seconds for the whole trial.
        memory_gib: GiB of its own memory, without files that it maps.
    """

    timeout_s: float = 120.0
    memory_gib: float = 8.0

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for limits in which nothing can be run."""
        if not 0 < self.timeout_s <= _MAX_SECONDS:
            raise InvalidArgumentError(
                f"trial-timeout is {self.timeout_s:g}: give seconds, more than 0 and at most "
                f"{_MAX_SECONDS}"
            )
        if not _MIN_MEMORY_GIB <= self.memory_gib <= _MAX_MEMORY_GIB:
            raise InvalidArgumentError(
                f"trial-memory is {self.memory_gib:g}: give GiB, {_MIN_MEMORY_GIB} to "
                f"{_MAX_MEMORY_GIB}"
            )


def run_network_worker(
    network: OnnxFile, request: Mapping[str, Any], limits: TrialLimits
) -> dict[str, Any]:
    """Return the response of `network_worker` to a request about a network.

    The process ends with this call whatever happens, and with this process.

    Raises:
        UnknownOperatorError: ONNX Runtime lacks an operator.
        RepositoryError: The network cannot be loaded or run, or exceeds a limit.
    """
    _check_onnxruntime()
    whole = {
        "path": str(network.path),
        "file": str(network.file),
        "memory_bytes": int(limits.memory_gib * _GIB),
        "parent": os.getpid(),
        **request,
    }
    with (
        tempfile.TemporaryFile() as stderr,
        tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch,
        # A separate session: Ctrl-C is for this process, which then ends the other one.
        subprocess.Popen(
            worker_command("endcap.repository.network_worker"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},  # ONNX Runtime leaves files there
        ) as process,
    ):  # fmt: skip
        try:
            output, _ = process.communicate(json.dumps(whole).encode(), limits.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(
                f"{network.path} is not done with its trial run after {limits.timeout_s:g} "
                "seconds; give --trial-timeout more seconds, or a smaller --max-batch, if the "
                "network is that slow here, and do not serve it if it never ends"
            ) from error
        finally:
            process.kill()
        stderr.seek(0)
        printed = stderr.read().decode(errors="replace")
    return _parse_response(network, limits, process.returncode, output, printed)


def _parse_response(
    network: OnnxFile, limits: TrialLimits, code: int, output: bytes, printed: str
) -> dict[str, Any]:
    response = (
        json.loads(output) if code == 0 else {"error": f"{_exit(code)}: {_last_line(printed)}"}
    )
    if "error" not in response:
        return dict(response)
    message = response["error"]
    if code == -signal.SIGKILL or any(each in f"{message}{printed}" for each in OUT_OF_MEMORY):
        raise RepositoryError(
            f"{network.path} takes more than {limits.memory_gib:g} GiB of memory in its trial run, "
            "or more than there is; give --trial-memory more GiB if this machine has them, or "
            "export the network for a smaller size"
        )
    if code != 0:
        raise RepositoryError(
            f"{network.path} has crashed ONNX Runtime in its trial run ({message}); export it again"
        )
    raise (UnknownOperatorError if response["unknown_operator"] else RepositoryError)(message)


def _exit(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:  # it has ended by itself
        return f"exit code {code}"


def _last_line(printed: str) -> str:
    lines = printed[-_SHOWN_CHARACTERS:].split("\n")
    return next((line.strip().rstrip(".") for line in reversed(lines) if line.strip()), "no output")


def _check_onnxruntime() -> None:
    if importlib.util.find_spec("onnxruntime") is None:
        raise RepositoryError(
            "trying the network takes onnxruntime, which cannot be imported (it is not "
            f"installed); run `{install_command('init')}`"
        )


@dataclass(frozen=True)
class LargestBatch:
    """How many images a network takes at once, and why no more; "" where it takes all."""

    images: int
    reason: str = ""


@dataclass(frozen=True)
class Trial:
    """What a network gave for noise.

    Attributes:
        rows_error: Why its outputs are of no fixed shape, "" where they are.
        batch_error: Why the images of its batches are not served, "" where they are.
        largest_batch: How many images it takes at once, at most those that were asked for.
    """

    outputs: tuple[NetworkOutput, ...]
    rows_error: str = ""
    batch_error: str = ""
    largest_batch: LargestBatch | None = None


def try_network(
    network: OnnxFile, image: NetworkInput, *, images: int, limits: TrialLimits
) -> Trial:
    """Run the network on one image of noise, on another, on both, and on a full batch of one.

    Args:
        network: The network.
        image: Its input.
        images: How many it has to take at once. More than two are tried where its operators may
            treat some of them only.
        limits: Of the process.

    Raises:
        UnknownOperatorError: ONNX Runtime lacks an operator.
        RepositoryError: The network cannot be loaded or run, gives no tensors, or exceeds a limit.
    """
    tried = images if image.batch is None else 1
    operators = {node.op_type for node in network.model.graph.node}
    if not network.metadata.has_nms and operators.isdisjoint(_BY_IMAGE):
        tried = min(tried, 2)
    # A model that is edited in memory does not find weights in other files.
    boxes = [] if network.external_files else find_nms_boxes(network.model)
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        request = {
            "task": "run",
            **_request_of(image),
            "images": tried,
            "outputs": [spec.name for spec in network.outputs],
            "nms_boxes": boxes,
            "target": str(scratch),
        }
        response = run_network_worker(network, request, limits)
        varying = response["varying"]
        outputs = [
            _read_output(scratch, each, rows_vary=each["name"] in varying or _has_rows(image, each))
            for each in response["outputs"]
        ]
    rows_error = ""
    for name, (first, second) in varying.items():
        rows_error = (
            f"{network.path} gives as many rows of {name} as it finds ({first} and {second} for "
            "two images of noise), and a model of Triton's has a fixed number; export it with "
            "one, filled up"
        )
        break
    found = response["images"] if response["images"] < tried else images
    largest = LargestBatch(found, response["images_reason"])
    return Trial(tuple(outputs), rows_error, response["batch_error"], largest)


def find_nms_boxes(model: Any) -> list[str]:
    """Return the boxes [batch, boxes, 4] of the NonMaxSuppression nodes of an onnx.ModelProto."""
    nodes = (node for node in model.graph.node if node.op_type == "NonMaxSuppression")
    return list(dict.fromkeys(node.input[0] for node in nodes))


def _request_of(image: NetworkInput) -> dict[str, Any]:
    takes_bytes = image.normalization is not None and image.normalization.takes_bytes
    return {
        "input": image.name,
        "dims": image.dims,
        "dtype": image.dtype,
        "largest": {"UINT8": 255, "INT8": 127}.get(image.data_type, 255 if takes_bytes else 1),
        "has_batch": image.has_batch,
        "constants": {
            name: {"values": array.tolist(), "dtype": array.dtype.name}
            for name, array in image.constants.items()
        },
    }


def count_score_columns(
    network: OnnxFile, image: NetworkInput, scores: NetworkOutput, limits: TrialLimits
) -> ScoreColumns | None:
    """Return the scores of each box before suppression inside the network; None where unclear.

    They are the last dimension of the softmax from which the output `scores` comes, else that of
    the sigmoids.
    """
    if network.external_files:  # which an edited model in memory does not find
        return None
    request = {"task": "count_columns", "scores": scores.name, **_request_of(image)}
    try:
        counts = run_network_worker(network, request, limits)["columns"]
    except RepositoryError:
        return None
    for activation in ("Softmax", "Sigmoid"):
        found = set(counts[activation])
        if found:
            return ScoreColumns(found.pop(), activation) if len(found) == 1 else None
    return None


def _has_rows(image: NetworkInput, output: Mapping[str, Any]) -> bool:
    """Return whether the first of one or two dimensions is dynamic, and not a batch."""
    dynamic = output["is_dynamic"]
    return image.batch == 1 and len(output["shape"]) in (1, 2) and bool(dynamic) and dynamic[0]


def _read_output(folder: Path, output: Mapping[str, Any], *, rows_vary: bool) -> NetworkOutput:
    if output["file"] is None:  # strings, of which only the shape matters
        array = np.empty(output["shape"], np.object_)
    else:
        array = np.load(folder / output["file"], allow_pickle=False)
    # The output for one image has a batch dimension of 1, or none at all.
    has_batch = array.shape[:1] == (1,)
    item = array[0] if has_batch else array
    return NetworkOutput(
        name=output["name"],
        data_type=TRITON_TYPES.get(array.dtype.name, ""),
        dims=item.shape,
        has_batch=has_batch,
        is_dynamic=tuple(output["is_dynamic"]),
        values=np.asarray(item, np.float64) if array.dtype.kind in "biuf" else None,
        rows_vary=rows_vary,
    )
