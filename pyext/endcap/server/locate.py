"""Finds a Triton server on this machine, and what lies beside it.

The places, in the order in which they are looked at: a path given by the user, $PATH, NVIDIA's
container, and the wheel `nvidia-pytriton`, whose Python package is found but never imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from endcap.server.errors import ServerError

CONTAINER_EXECUTABLE = Path("/opt/tritonserver/bin/tritonserver")
WHEEL_PACKAGE = "pytriton"
WHEEL_LIBRARIES = "nvidia_pytriton.libs"


@dataclass(frozen=True, kw_only=True)
class ServerInstallation:
    """A server and the folders that came with it; a folder that is not there is None."""

    executable: Path
    origin: str  # "option", "PATH", "container" or "wheel"
    library_dir: Path | None  # shared libraries that the server and its stubs need
    backends_dir: Path | None
    stubs_dir: Path | None  # one folder per Python version, each with a Python-backend stub
    caches_dir: Path | None
    repository_agents_dir: Path | None


def locate_server(explicit: str | os.PathLike[str] | None = None) -> ServerInstallation:
    """Returns the server to run.

    explicit: a `tritonserver` file, or the folder of an installation (with `bin/tritonserver`).
    Raises ServerError when `explicit` is no server, or when there is none anywhere.
    """
    if explicit is not None:
        return _describe(_explicit_executable(Path(explicit)), "option")
    on_path = shutil.which("tritonserver")
    if on_path is not None:
        return _describe(Path(on_path), "PATH")
    if _is_executable(CONTAINER_EXECUTABLE):
        return _describe(CONTAINER_EXECUTABLE, "container")
    in_wheel = _wheel_executable()
    if in_wheel is not None:
        return _describe(in_wheel, "wheel")
    raise ServerError(
        f"no Triton server was found on $PATH, at {CONTAINER_EXECUTABLE}, or in a wheel; "
        "install one with `pip install 'endcap[server]'`, or name one with --tritonserver PATH"
    )


def _explicit_executable(path: Path) -> Path:
    candidate = path / "bin" / "tritonserver" if path.is_dir() else path
    if not _is_executable(candidate):
        raise ServerError(
            f"--tritonserver {path} is not a program that can be run; "
            "give the tritonserver file, or the folder that holds bin/tritonserver"
        )
    return candidate


def _wheel_executable() -> Path | None:
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(location) / "tritonserver" / "bin" / "tritonserver"
        if _is_executable(candidate):
            return candidate
    return None


def _describe(executable: Path, origin: str) -> ServerInstallation:
    executable = executable.resolve()
    root = executable.parent.parent
    # <site-packages>/pytriton/tritonserver is the wheel's root; a container keeps lib/ in the root.
    wheel_libraries = root.parent.parent / WHEEL_LIBRARIES
    return ServerInstallation(
        executable=executable,
        origin=origin,
        library_dir=_existing(wheel_libraries) or _existing(root / "lib"),
        backends_dir=_existing(root / "backends"),
        stubs_dir=_existing(root / "python_backend_stubs"),
        caches_dir=_existing(root / "caches"),
        repository_agents_dir=_existing(root / "repoagents"),
    )


def _existing(folder: Path) -> Path | None:
    return folder if folder.is_dir() else None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
