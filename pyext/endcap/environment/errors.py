"""Errors of execution environments and stubs."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap._pip_commands import install_command
from endcap.errors import EndcapError


class ExecutionEnvironmentError(EndcapError, RuntimeError):
    """An environment that cannot be built, or does not work; the message says what to do next."""


class StubError(EndcapError, RuntimeError):
    """A stub that cannot be installed; the message says what to do next."""


def import_tool(module: str) -> ModuleType:
    """Return a module of py-rattler or conda-pack.

    Raises:
        ExecutionEnvironmentError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ExecutionEnvironmentError(
            f"packing an environment takes py-rattler and conda-pack, and {module} cannot be "
            f"imported ({error}); run `{install_command('env')}`"
        ) from error
