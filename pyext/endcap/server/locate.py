"""The Triton server on this machine, and what lies next to it.

The places, in the order in which they are looked at: a path given by the user, the variable
ENDCAP_TRITONSERVER, $PATH, NVIDIA's container, the wheel `nvidia-pytriton` in the environment of
endcap, whose Python package is found but never imported, and the server that endcap has installed
for itself.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from endcap.server.private_server import (
    EXECUTABLE,
    find_private_server,
    install_private_server,
    private_server_folder,
    show_nothing,
)
from endcap.triton.errors import ServerError

CONTAINER_EXECUTABLE = Path("/opt/tritonserver/bin/tritonserver")
SERVER_VARIABLE = "ENDCAP_TRITONSERVER"
WHEEL_PACKAGE = "pytriton"
WHEEL_LIBRARIES = "nvidia_pytriton.libs"


@dataclass(frozen=True, kw_only=True)
class ServerInstallation:
    """A server and the folders that came with it; a folder that is not there is None."""

    executable: Path
    origin: str  # "option", "variable", "PATH", "container", "wheel" or "private"
    library_dir: Path | None  # shared libraries that the server and its stubs need
    backends_dir: Path | None
    stubs_dir: Path | None  # one folder per Python version, each with a Python-backend stub
    caches_dir: Path | None
    repository_agents_dir: Path | None

    @property
    def is_private(self) -> bool:
        """Whether it is endcap's own, whose Python models have a separate environment."""
        try:
            return self.executable == _private_executable()
        except ServerError:  # there is no place for one
            return False


class NoServerError(ServerError):
    """No server is installed anywhere, and none was named."""


def locate_server(explicit: str | os.PathLike[str] | None = None) -> ServerInstallation:
    """Return the server to run; nothing is installed.

    Args:
        explicit: A `tritonserver` file, or the folder of an installation (with `bin/tritonserver`).

    Raises:
        NoServerError: There is none anywhere.
        ServerError: What is named is not a server, or endcap's cache is not safe.
    """
    found = _locate_others(explicit)
    if found is None and find_private_server() is not None:
        found = _describe(_private_executable(), "private")
    if found is None:
        raise NoServerError(
            f"no Triton server was found on $PATH, at {CONTAINER_EXECUTABLE}, in a wheel or in "
            f"endcap's cache ({private_server_folder()}); `endcap serve` installs one there, or "
            "name one with --tritonserver PATH (`tritonserver=` in Python)"
        )
    return found


def locate_or_install_server(
    explicit: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = show_nothing,
) -> ServerInstallation:
    """Return the server to run; where there is none, endcap's own is installed.

    Args:
        explicit: As for `locate_server`.
        progress: Is called with a message when the installation begins.

    Raises:
        ServerError: What is named is not a server, or none can be installed.
        OSError: endcap's cache cannot be written.
    """
    found = _locate_others(explicit)
    if found is None:
        install_private_server(progress)
        found = _describe(_private_executable(), "private")
    return found


def _locate_others(explicit: str | os.PathLike[str] | None) -> ServerInstallation | None:
    """Return the server to run where it is not endcap's own."""
    if explicit is not None:
        return _describe(_explicit_executable(Path(explicit), "--tritonserver "), "option")
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        return _describe(_explicit_executable(Path(named), f"{SERVER_VARIABLE}="), "variable")
    on_path = shutil.which("tritonserver")
    if on_path is not None:
        return _describe(Path(on_path), "PATH")
    if _is_executable(CONTAINER_EXECUTABLE):
        return _describe(CONTAINER_EXECUTABLE, "container")
    in_wheel = _wheel_executable()
    return _describe(in_wheel, "wheel") if in_wheel is not None else None


def _private_executable() -> Path:
    return private_server_folder() / EXECUTABLE


def _explicit_executable(path: Path, given_by: str) -> Path:
    candidate = path / "bin" / "tritonserver" if path.is_dir() else path
    if not _is_executable(candidate):
        raise ServerError(
            f"{given_by}{path} is not a program that can be run; "
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


def locate_if_there(tritonserver: Path | None = None) -> ServerInstallation | None:
    """Return what `locate_server` does, or None where none was named and none is found.

    Raises:
        ServerError: `tritonserver` is named and is none.
    """
    try:
        return locate_server(tritonserver)
    except ServerError:
        if tritonserver is not None:
            raise
        return None
