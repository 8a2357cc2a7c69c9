"""Whether endcap's DALI operators can be loaded, tried in a process of its own: DALI is large."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

from endcap._system.worker_command import worker_command
from endcap.errors import EndcapError
from endcap.triton.errors import ServerError

_LOADED_WITHIN_S = 120


def find_operators() -> Path:
    """Return the library of the operators, which this Python's DALI has loaded.

    Raises:
        ServerError: There is no DALI, or no library for it.
    """
    command = worker_command("endcap.server.dali_operators")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LOADED_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(f"DALI was not loaded within {_LOADED_WITHIN_S} s; try again") from error
    kind, _, told = (done.stdout.strip().splitlines() or [""])[-1].partition(" ")
    if kind == "library":
        return Path(told)
    if kind != "problem":
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        told = f"DALI cannot be loaded ({last}); `endcap dali info` shows what is installed"
    raise ServerError(told)


def main() -> None:
    """Print the library that is loaded into this process's DALI, or why there is none."""
    dali: Any = importlib.import_module("endcap.dali")  # beside this layer, and only in the worker
    try:
        print("library", dali.load())
    except EndcapError as error:
        print("problem", error)
