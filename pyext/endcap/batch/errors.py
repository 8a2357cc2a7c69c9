"""The error of work on data sets, and imports of the packages that it needs."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap._pip_commands import install_command
from endcap.errors import EndcapError


class BatchError(EndcapError, RuntimeError):
    """A data set cannot be read, processed or written; the message says what to do.

    An image that is bad is none: its row has a status and a message.
    """


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
