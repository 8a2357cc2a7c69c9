"""Processes of the Python that runs endcap: workers of endcap, and pip."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from endcap.errors import EndcapError

# `-m` and `-c` look for every module in the folder that they are called in first: before the path
# is set, only what is compiled into Python may be imported.
_START = """
import sys
name, sys.path[:] = sys.argv[1], sys.argv[2:]
import importlib
importlib.import_module(name).main()
"""
# These would lead pip, or the Python that it installs for, elsewhere.
_DROPPED_VARIABLES = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"}
_ERROR = "error: "  # the prefix of pip's error messages


def worker_command(module: str) -> list[str]:
    """Return the command that calls `main` of a module with this process' Python and packages."""
    return [sys.executable, "-c", _START, module, *_module_folders()]


def _module_folders() -> list[str]:
    """Return the search path of this process without the folder it was started in."""
    has_start_folder = sys.path[0] in ("", os.getcwd())
    return [*sys.path[has_start_folder:], str(Path(__file__).parents[1])]


class PipError(EndcapError, RuntimeError):
    """pip is missing or has failed; the message says what to do next."""


def run_pip(*arguments: str, advice: str, **variables: str) -> None:
    """Run pip without modules from the current folder; an interrupt ends it, too.

    A Python without pip runs the wheel of pip that its `ensurepip` carries, in place.

    Args:
        arguments: Of pip.
        advice: What to do when it fails, the end of the message.
        variables: Of its environment, in addition to those of this process.

    Raises:
        PipError: This Python has neither, or pip has failed.
    """
    command = [*_pip_command(), *arguments]
    environment = {**environment_for_pip(), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipError(f"{_read_pip_errors(done.stderr)}; {advice}")


def _pip_command() -> list[str]:
    # Without -I the folder it is called in comes first among those of modules.
    python = [sys.executable, "-I"]
    if importlib.util.find_spec("pip") is not None:
        return [*python, "-m", "pip"]
    ensurepip = importlib.util.find_spec("ensurepip")
    for folder in (ensurepip.submodule_search_locations or ()) if ensurepip else ():
        for wheel in sorted(Path(folder).glob("_bundled/pip-*.whl")):
            return [*python, str(wheel / "pip")]
    raise PipError(
        f"{sys.executable} has no pip; run `{sys.executable} -m ensurepip`, or `apt-get install "
        "python3-pip` for the system's Python, or `uv pip install pip` for an environment of uv"
    )


def environment_for_pip() -> dict[str, str]:
    """Return the environment of pip's process, in which settings of `user` do not apply."""
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED_VARIABLES}
    return {**kept, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONNOUSERSITE": "1"}


def _read_pip_errors(stderr: str) -> str:
    """Return pip's own error message, to be quoted in another."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line[len(_ERROR) :] for line in lines if line.lower().startswith(_ERROR)]
    return in_one_line("\n".join(errors or lines[-1:]))


def in_one_line(text: str) -> str:
    """Return a tool's message, which may have many lines, to be quoted in another."""
    parts: list[str] = []
    for line in text.splitlines():
        part = line.strip().removeprefix("Caused by: ").rstrip(".")
        if part and not any(part in before for before in parts):
            parts.append(part)
    return ", ".join(parts)
