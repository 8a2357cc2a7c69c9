"""The command that runs a module of endcap in a Python process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# `-m` and `-c` look for every module in the folder that they are called in first: before the path
# is set, only what is compiled into Python may be imported.
_START = """
import sys
name, sys.path[:] = sys.argv[1], sys.argv[2:]
import importlib
importlib.import_module(name).main()
"""


def worker_command(module: str) -> list[str]:
    """Return the command that calls `main` of a module with this process' Python and packages."""
    return [sys.executable, "-c", _START, module, *_module_folders()]


def _module_folders() -> list[str]:
    """Where this process looks for modules, but for the folder it was called in."""
    called_in = sys.path[0] in ("", os.getcwd())
    return [*sys.path[called_in:], str(Path(__file__).parents[1])]
