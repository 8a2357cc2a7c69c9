"""Find a Python interpreter that runs, by name or path, and print its path.

    python scripts/find_python.py python3.12     # or python3.14t, without a GIL
    python scripts/find_python.py --all          # the name of each version that runs, oldest first

Looks on PATH first, then among pyenv's versions: where pyenv has no version chosen, its shim
`python3.12` is on PATH and fails, while the interpreter is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_DESCRIBE = """
import sys, sysconfig
threading = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''
print('%d.%d%s' % (*sys.version_info[:2], threading))
print(sys.executable)
"""


# Versions that endcap has wheels for, as the classifiers in pyproject.toml list them.
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")


class PythonNotFoundError(Exception):
    """No interpreter fits; the message says what was tried and what to do."""


def find_python(asked: str) -> Path:
    """Return the interpreter that `asked` names.

    Args:
        asked: A path, or a name such as "python3.12", which must be of that version.

    Raises:
        PythonNotFoundError: There is none, or none that runs.
    """
    version = _version_of_name(asked)
    tried = []
    for candidate in _candidates(asked):
        try:
            found, executable = _describe(candidate)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            tried.append(f"{candidate} cannot be run: {_reason(error)}")
            continue
        if version in (None, found) or "/" in asked:
            return executable
        tried.append(f"{candidate} is Python {found}")
    install = version or "X.Y"
    raise PythonNotFoundError(
        "\n".join(
            [
                f"no Python for {asked!r} was found:",
                *(f"  {line}" for line in tried or [f"{asked} is not on PATH"]),
                f"install it (the packages python{install}, python{install}-dev and "
                f"python{install}-venv, or `pyenv install {install}`), or give its path, for "
                f"example GPU_PYTHON=/opt/python/bin/python{install}",
            ]
        )
    )


def find_all() -> list[str]:
    """Return the names of the supported Pythons that are here, such as "python3.12"."""
    found = []
    for version in SUPPORTED:
        with contextlib.suppress(PythonNotFoundError):
            find_python(f"python{version}")
            found.append(f"python{version}")
    return found


def _version_of_name(asked: str) -> str | None:
    """Return "3.12" of "python3.12", "3.14t" of "python3.14t", None of "python3"."""
    match = re.fullmatch(r"python(\d\.\d+t?)", Path(asked).name)
    return match[1] if match else None


def _candidates(asked: str) -> Iterator[Path]:
    if "/" in asked:
        yield Path(asked).expanduser().absolute()
        return
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.access(Path(folder, asked), os.X_OK):
            yield Path(folder, asked).absolute()
    version = _version_of_name(asked)
    if version is not None:
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        number = version.removesuffix("t")
        installed = root.glob(f"versions/{number}.*/bin/{asked}")
        yield from sorted(installed, key=_patch_number, reverse=True)


def _patch_number(interpreter: Path) -> int:
    """Return 11 of .../versions/3.12.11/bin/python3.12; -1 of a name such as 3.12.dev.

    pyenv's free-threaded versions have a name such as 3.14.2t.
    """
    last = interpreter.parents[1].name.split(".")[-1].removesuffix("t")
    return int(last) if last.isdigit() else -1


def _describe(interpreter: Path) -> tuple[str, Path]:
    """Return the version of an interpreter and its own path, which is not that of a shim."""
    command = [str(interpreter), "-c", _DESCRIBE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    version, executable = done.stdout.splitlines()
    return version, Path(executable)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines()
        return lines[0] if lines else f"exit status {error.returncode}"
    return str(error)


def main() -> int:
    """Print the path, or the reason on stderr."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("python", nargs="?", help="a name such as python3.12, or a path")
    asked.add_argument("--all", action="store_true", help="every supported version that is here")
    options = parser.parse_args()
    try:
        print(*find_all(), sep="\n") if options.all else print(find_python(options.python))
    except PythonNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
