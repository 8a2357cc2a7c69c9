"""Processes of the Python that runs endcap: workers of endcap, and pip."""

from __future__ import annotations

import ast
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
_KEPT_SETTINGS = {
    "index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "keyring-provider",
    "proxy", "cert", "client-cert", "cache-dir", "no-cache-dir", "retries", "resume-retries",
    "timeout", "default-timeout",
}  # fmt: skip
_SECTIONS = ("global", "install", ":env:")  # later ones override earlier ones
# They would change the Python that pip installs for, too.
_PYTHON_VARIABLES = {"PYTHONPATH", "PYTHONHOME"}
_ERROR = "error: "  # the prefix of pip's error messages


def worker_command(module: str) -> list[str]:
    """Return the command that calls `main` of a module with this process' Python and packages."""
    return [sys.executable, "-c", _START, module, *_module_folders()]


def _module_folders() -> list[str]:
    """Return the search path of this process without the folder it was started in."""
    has_start_folder = sys.path[0] in ("", os.getcwd())
    return [*sys.path[has_start_folder:], str(Path(__file__).parents[1])]


class PipError(EndcapError, RuntimeError):
    """pip is missing, cannot read its settings, or fails; the message says what to do next."""


def pip_command() -> list[str]:
    """Return the command that runs pip without modules from the current folder.

    A Python without pip runs the wheel of pip that its `ensurepip` carries, in place.

    Raises:
        PipError: This Python has neither.
    """
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
    """Return the environment of pip's process, in which it reads no configuration file.

    The user's settings of sources are kept, those of targets are not.

    Raises:
        PipError: pip cannot read its settings, or is not there.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _PYTHON_VARIABLES and not name.startswith("PIP_")
    }
    environment.update(_kept_settings())
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1"}


def pip_errors(stderr: str) -> str:
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


def _kept_settings() -> dict[str, str]:
    values: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in _list_settings().splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in values and name in _KEPT_SETTINGS:
            variable = f"PIP_{name.upper().replace('-', '_')}"
            values[section][variable] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in values[section].items()}


def _list_settings() -> str:
    # `quiet` in the settings would silence the list as well.
    environment = {**os.environ, "PIP_QUIET": "0", "PIP_VERBOSE": "0"}
    command = [*pip_command(), "config", "list"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return finished.stdout
    raise PipError(
        f"pip cannot read its settings ({in_one_line(finished.stderr[-1000:])}); "
        "`pip config debug` names their files, correct them"
    )
