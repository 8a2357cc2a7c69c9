"""Python-backend stub of the server, and what it needs from the Python that runs endcap.

The wheel's server brings one `triton_python_backend_stub` per Python version. A stub embeds Python:
it loads libpython3.X.so.1.0 and takes its packages from the first `python3` on PATH.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from endcap.errors import ServerError

PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
LIBPYTHON = f"libpython{PYTHON_VERSION}.so.1.0"

_MIN_MINOR = 10  # of Python 3, that endcap runs with
_LOADER_FAILED = 127  # what the dynamic loader exits with when a library is missing


def find_stub(stubs_dir: Path) -> Path:
    """Return the stub for the running Python; raise ServerError where the wheel has none."""
    if not has_stub(stubs_dir):
        minors = [int(path.name[2:]) for path in stubs_dir.glob("3.*") if path.name[2:].isdecimal()]
        versions = [f"3.{minor}" for minor in sorted(minors) if minor >= _MIN_MINOR]
        raise ServerError(
            f"the Triton server has no Python-backend stub for Python {PYTHON_VERSION}, only for "
            f"{', '.join(versions) or 'none that endcap runs with'}; install endcap with one of "
            "these Pythons, use a server that has the stub, or give each Python model an "
            "environment with `endcap env pack`"
        )
    return stubs_dir / PYTHON_VERSION / "triton_python_backend_stub"


def has_stub(stubs_dir: Path) -> bool:
    """Return whether there is a stub for the running Python."""
    return (stubs_dir / PYTHON_VERSION / "triton_python_backend_stub").is_file()


def find_libpython() -> Path | None:
    """Return the running Python's shared library where it lies next to the interpreter."""
    folders = [sysconfig.get_config_var("LIBDIR"), sys.base_prefix + "/lib"]
    for folder in folders:
        if folder and (Path(folder) / LIBPYTHON).is_file():
            return Path(folder) / LIBPYTHON
    return None


def python_program_dir() -> Path:
    """Return the folder whose `python3` is the running Python, for the front of PATH."""
    folder = Path(sys.executable).parent
    program = folder / "python3"
    # Every python3 in a virtual environment's folder is its interpreter, be it a link or a copy.
    in_environment = program.exists() and sys.prefix != sys.base_prefix
    if not in_environment and program.resolve() != Path(sys.executable).resolve():
        raise ServerError(
            f"{folder} has no python3 that is {sys.executable}, which Python-backend models need; "
            "install endcap in a virtual environment"
        )
    return folder


def check_stub_runs(stub: Path, environment: Mapping[str, str]) -> None:
    """Start the stub once, without arguments, to see that its libraries are found.

    Raises ServerError with the library that is missing and the package that brings it.
    """
    finished = subprocess.run(
        [str(stub)], env=dict(environment), capture_output=True, text=True, timeout=30, check=False
    )
    if finished.returncode == _LOADER_FAILED:
        raise ServerError(
            f"Python-backend models cannot run: {finished.stderr.strip()}; {LIBPYTHON} "
            f"usually comes with `apt-get install libpython{PYTHON_VERSION}`"
        )


def check_numpy(model_names: list[str]) -> None:
    """Raise ServerError for NumPy 2, with which these stubs return empty tensors, silently."""
    try:
        version = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        return
    if int(version.partition(".")[0]) >= 2:
        raise ServerError(
            f"NumPy {version} makes this server's Python-backend models ({', '.join(model_names)}) "
            "return empty tensors without an error; run `pip install 'numpy<2'` in this "
            "environment, or `pip uninstall nvidia-pytriton`: endcap then installs "
            "a separate server and NumPy"
        )
