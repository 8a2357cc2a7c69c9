"""The JSON documents: the times, and the differences."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import distributions
from typing import Any

import endcap
from benchmarks import images, machine, paths
from benchmarks.dali import differences, run

Json = dict[str, Any]


class DaliMissingError(Exception):
    """DALI, or endcap's operators in it, cannot be had; the message says what to do."""


def steps(plan: run.Plan, with_times: bool) -> int:
    """How often `done` will hear of something."""
    return differences.steps() + (run.steps(plan) if with_times else 0)


def times(plan: run.Plan, done: Callable[[str], None]) -> Json:
    """Measure the ways. Raises SourceMissingError where a photograph's package is not there."""
    about = {**machine.describe(), "dali": dali_version()}
    pictures = [images.make(name, paths.IMAGES) for name in plan.images]
    return {"machine": about, "dali": run.run(plan, pictures, done)}


def parity(plan: run.Plan, done: Callable[[str], None]) -> Json:
    """Measure the differences.

    Raises SourceMissingError, and DaliMissingError where there is nothing to compare.
    """
    if dali_version() == "not installed":
        raise DaliMissingError("DALI is not installed: run pip install 'endcap[dali]'")
    about = {**machine.describe(), "dali": dali_version()}
    pictures = [images.make(name, paths.IMAGES) for name in plan.images]
    try:
        return {"machine": about, "dali_parity": differences.run(pictures, done)}
    except endcap.EndcapError as error:
        raise DaliMissingError(str(error)) from error


def dali_version() -> str:
    """Of the package, which is named after a CUDA version; "not installed" without one."""
    for found in distributions():
        if found.name.startswith("nvidia-dali-cuda"):
            return f"{found.name} {found.version}"
    return "not installed"
