"""Measures the ways in the server's environment, and gives the JSON document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import machine, server_process


def make(
    python: Path, *, quick: bool, start: Callable[[int], None], done: Callable[[str], None]
) -> dict[str, Any]:
    """Triton and the clients run in the environment of `python`.

    `start` is called with the number of visits of ways, `done` of each.
    Raises server_process.ServerPartError.
    """
    about = machine.describe()
    options = ["--quick"] if quick else []
    return {
        "machine": about,
        "clients": server_process.part(python, "benchmarks.clients", options, start, done),
    }
