"""Import of Ray, which the extra `ray` brings."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap._system.pip_commands import install_command
from endcap.batch.errors import BatchError


def import_package(module: str) -> ModuleType:
    """Return a module of the extra `ray`.

    Raises:
        BatchError: It is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BatchError(
            f"data sets need the package {module.partition('.')[0]}, which cannot be imported "
            f"({error}); run `{install_command('ray')}`"
        ) from error
