"""Import of PyAV, which the extra `video` brings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from endcap._pip_commands import install_command
from endcap.errors import VideoError

if TYPE_CHECKING:
    from types import ModuleType


def import_av() -> ModuleType:
    """Return PyAV's module.

    Raises:
        VideoError: It is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise VideoError(
            f"videos need the package av, which cannot be imported ({error}); run "
            f"`{install_command('video')}`"
        ) from error
