"""Error of an evaluation, and imports of optional packages."""

from __future__ import annotations

from typing import Any

from endcap._pip_commands import import_extra
from endcap.errors import EndcapError


class EvaluationError(EndcapError, RuntimeError):
    """A package is missing, or a model cannot be measured; the message says what to do."""


def import_package(module: str, *, package: str = "") -> Any:
    """Return a module of an optional package; EvaluationError where it is missing.

    Args:
        module: Its name.
        package: The package that has it; by default all of the extra `evaluate` are named.
    """
    return import_extra(module, "evaluate", "this command", EvaluationError, package=package)
