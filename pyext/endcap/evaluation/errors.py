"""Error of an evaluation, and imports of optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap.errors import EndcapError


class EvaluationError(EndcapError, RuntimeError):
    """A package is missing, or a model cannot be measured; the message says what to do."""


def import_package(module: str, *, install: str = "endcap[evaluate]") -> ModuleType:
    """Return a module of an optional package.

    Args:
        module: Its name.
        install: The package that `pip install` takes.

    Raises:
        EvaluationError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EvaluationError(
            f"this command takes {module.partition('.')[0]}, which cannot be imported "
            f"({error}); run `pip install '{install}'`"
        ) from error
