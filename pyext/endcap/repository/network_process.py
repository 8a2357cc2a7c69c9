"""Runs `network_worker`: networks that never end, or take all memory, end that process alone."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from endcap._system.scratch import scratch_folder
from endcap._system.worker_command import worker_command
from endcap.errors import InvalidArgumentError
from endcap.repository.errors import RepositoryError
from endcap.repository.onnx_file import OnnxFile

_GIB = 2**30
_LEAST_MEMORY_GIB = 0.5  # of Python with ONNX Runtime alone
_MOST_MEMORY_GIB = 2**20
_MOST_SECONDS = 1_000_000  # poll(2) counts milliseconds in an int
# How ONNX Runtime, C++ and Python say that an allocation failed.
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation", "MemoryError")
_SHOWN_CHARACTERS = 500  # of what a process that crashed has printed, the last


class UnknownOperatorError(RepositoryError):
    """ONNX Runtime lacks an operator of the network, which may be TensorRT's own."""


@dataclass(frozen=True)
class TrialLimits:
    """What the process that runs a network may take.

    Attributes:
        timeout_s: Seconds for the whole trial.
        memory_gib: GiB of memory of its own, without files that it maps.
    """

    timeout_s: float = 120.0
    memory_gib: float = 8.0

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for limits in which nothing can be run."""
        if not 0 < self.timeout_s <= _MOST_SECONDS:
            raise InvalidArgumentError(
                f"trial-timeout is {self.timeout_s:g}: give seconds, more than 0 and at most "
                f"{_MOST_SECONDS}"
            )
        if not _LEAST_MEMORY_GIB <= self.memory_gib <= _MOST_MEMORY_GIB:
            raise InvalidArgumentError(
                f"trial-memory is {self.memory_gib:g}: give GiB, {_LEAST_MEMORY_GIB} to "
                f"{_MOST_MEMORY_GIB}"
            )


def run_network_worker(
    network: OnnxFile, request: Mapping[str, Any], limits: TrialLimits
) -> dict[str, Any]:
    """Return what the worker answers to a request about a network.

    The process ends with this call whatever happens, and with this process. Raises
    UnknownOperatorError, and RepositoryError when the network cannot be loaded or run, or exceeds a
    limit.
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
        tempfile.TemporaryFile() as complaints,
        scratch_folder("trial") as scratch,
        # A session of its own: Ctrl-C is for this process, which then ends the other one.
        subprocess.Popen(
            worker_command("endcap.repository.network_worker"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},  # ONNX Runtime leaves files there
        ) as process,
    ):  # fmt: skip
        try:
            output, _ = process.communicate(json.dumps(whole).encode(), limits.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(
                f"{network.path} is not done with its trial run after {limits.timeout_s:g} "
                "seconds; give --trial-timeout more seconds if the network is that slow here, and "
                "do not serve it if it never ends"
            ) from error
        finally:
            process.kill()
        complaints.seek(0)
        printed = complaints.read().decode(errors="replace")
    return _answer(network, limits, process.returncode, output, printed)


def _answer(
    network: OnnxFile, limits: TrialLimits, code: int, output: bytes, printed: str
) -> dict[str, Any]:
    answer = json.loads(output) if code == 0 else {"error": f"{_exit(code)}: {_last_line(printed)}"}
    if "error" not in answer:
        return dict(answer)
    message = answer["error"]
    if code == -signal.SIGKILL or any(each in f"{message}{printed}" for each in _OUT_OF_MEMORY):
        raise RepositoryError(
            f"{network.path} takes more than {limits.memory_gib:g} GiB of memory in its trial run, "
            "or more than there is; give --trial-memory more GiB if this machine has them, or "
            "export the network for a smaller size"
        )
    if code != 0:
        raise RepositoryError(
            f"{network.path} has crashed ONNX Runtime in its trial run ({message}); export it again"
        )
    raise (UnknownOperatorError if answer["unknown_operator"] else RepositoryError)(message)


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
            "installed); run `pip install 'endcap[init]'`"
        )
