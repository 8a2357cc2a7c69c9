"""Accuracy of a served detector on annotated images, compared with a reference for the same model.

`run` measures: `annotations` reads COCO's files, `categories` matches classes with them, the server
and `reference` detect, `coco` computes the measures and `report` prints them. The reference is ONNX
Runtime between `numpy_images` and `numpy_heads`, which use nothing of endcap's core. `side_by_side`
compares single images for `endcap infer --compare`, `parity` tensors with those of a training.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from endcap._pip_commands import import_extra
from endcap.errors import EndcapError

# Starts to show the progress of a number of steps, and yields what to call after each.
ShowProgress = Callable[[str, "int | None"], AbstractContextManager[Callable[[], None]]]


class EvaluationError(EndcapError, RuntimeError):
    """A package is missing, or a model cannot be measured; the message says what to do."""


def import_package(module: str, *, package: str = "") -> Any:
    """Return a module of an optional package; EvaluationError where it is missing.

    Args:
        module: Its name.
        package: The package that has it; by default all of the extra `evaluate` are named.
    """
    return import_extra(module, "evaluate", "this command", EvaluationError, package=package)
