"""Error of an evaluation, and imports of optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap._pip_commands import install_command
from endcap.errors import EndcapError


class EvaluationError(EndcapError, RuntimeError):
    """A package is missing, or a model cannot be measured; the message says what to do."""


def import_package(module: str, *, package: str | None = None) -> ModuleType:
    """Return a module of an optional package.

    Args:
        module: Its name.
        package: The package that has it; by default all of the extra `evaluate` are named.

    Raises:
        EvaluationError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        command = install_command("evaluate") if package is None else f"pip install {package}"
        raise EvaluationError(
            f"this command takes {module.partition('.')[0]}, which cannot be imported "
            f"({error}); run `{command}`"
        ) from error
