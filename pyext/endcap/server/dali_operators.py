"""Whether endcap's DALI operators can be loaded, tried in a process of its own: DALI is large."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from endcap.server.errors import ServerError

_LOAD = """
from endcap import dali
try:
    print("library", dali.load())
except dali.DaliError as error:
    print("problem", error)
"""
_LOADED_WITHIN_S = 120


def find_operators() -> Path:
    """Returns the library of the operators, which this Python's DALI has loaded.

    Raises ServerError where there is no DALI, or no library for it.
    """
    command = [sys.executable, "-c", _LOAD]
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
