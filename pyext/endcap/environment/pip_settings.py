"""What pip is told of this machine: where packages come from, and nothing of where they go."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from endcap.environment.errors import ExecutionEnvironmentError, in_one_line

# Without -I the folder it is called in comes first among those of modules.
PIP = (sys.executable, "-I", "-m", "pip")

_KEPT = {
    "index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "keyring-provider",
    "proxy", "cert", "client-cert", "cache-dir", "no-cache-dir", "retries", "resume-retries",
    "timeout", "default-timeout",
}  # fmt: skip
_SECTIONS = ("global", "install", ":env:")  # a later one is in force before an earlier one
_FOREIGN = {"PYTHONPATH", "PYTHONHOME"}  # of the Python that pip installs for, too


def environment_for_pip() -> dict[str, str]:
    """Returns the variables in which pip is to run: no file of settings is read then.

    Raises ExecutionEnvironmentError when pip cannot read its settings, or is not there.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN and not name.startswith("PIP_")
    }
    environment.update(_kept_settings())
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1"}


def _kept_settings() -> dict[str, str]:
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in _list_settings().splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found and name in _KEPT:
            variable = f"PIP_{name.upper().replace('-', '_')}"
            found[section][variable] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def _list_settings() -> str:
    # They may ask for quiet, which silences the list as well.
    environment = {**os.environ, "PIP_QUIET": "0", "PIP_VERBOSE": "0"}
    command = [*PIP, "config", "list"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode == 0:
        return finished.stdout
    if "No module named pip" in finished.stderr:
        raise ExecutionEnvironmentError(
            f"{sys.executable} has no pip, which `endcap env pack` runs; "
            f"type `{sys.executable} -m ensurepip`"
        )
    raise ExecutionEnvironmentError(
        f"pip cannot read its settings ({in_one_line(finished.stderr[-1000:])}); "
        "`pip config debug` names their files, correct them"
    )
