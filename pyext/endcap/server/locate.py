"""The Triton server on this machine, and what lies next to it.

The places, in the order in which they are looked at: a path given by the user, the variable
ENDCAP_TRITONSERVER, $PATH, NVIDIA's container, the wheel `nvidia-pytriton` in the environment of
endcap, whose Python package is found but never imported, and the server that endcap has installed
for itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import EndcapError, ServerError
from endcap.server.private_server import (
    EXECUTABLE,
    find_private_server,
    install_private_server,
    private_server_folder,
)

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
    caches_dir: Path | None
    stubs_dir: Path | None  # one folder per Python version, each with a Python-backend stub

    @property
    def is_private(self) -> bool:
        """Whether it is endcap's own, whose Python models have a separate environment."""
        with contextlib.suppress(EndcapError):  # no place for one
            return self.executable == private_server_folder() / EXECUTABLE
        return False


class NoServerError(ServerError):
    """No server is installed anywhere, and none was named."""


def locate_server(explicit: str | os.PathLike[str] | None = None) -> ServerInstallation:
    """Return the server to run; nothing is installed.

    Args:
        explicit: A `tritonserver` file, or the folder of an installation (with `bin/tritonserver`).

    Raises:
        NoServerError: There is none anywhere.
        ServerError: What is named is not a server.
        UnsupportedError: endcap's cache cannot be used.
    """
    found = _find_server(explicit)
    if found is None:
        raise NoServerError(
            f"no Triton server was found on $PATH, at {CONTAINER_EXECUTABLE}, in a wheel or in "
            f"endcap's cache ({private_server_folder()}); `endcap serve` installs one there, or "
            "name one with --tritonserver PATH (`tritonserver=` in Python)"
        )
    return found


def locate_or_install_server(
    explicit: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ServerInstallation:
    """Return the server to run; where there is none, endcap's own is installed.

    `progress` is called with a message when that begins. Raises as `locate_server` and
    `install_private_server` do.
    """
    found = _find_server(explicit)
    return found or _describe(install_private_server(progress) / EXECUTABLE, "private")


def _find_server(explicit: str | os.PathLike[str] | None) -> ServerInstallation | None:
    if explicit is not None:
        return _describe(_named_executable(Path(explicit), "--tritonserver "), "option")
    if named := os.environ.get(SERVER_VARIABLE):
        return _describe(_named_executable(Path(named), f"{SERVER_VARIABLE}="), "variable")
    if on_path := shutil.which("tritonserver"):
        return _describe(Path(on_path), "PATH")
    wheel = importlib.util.find_spec(WHEEL_PACKAGE)
    folders = (wheel.submodule_search_locations or ()) if wheel else ()
    in_wheel = [Path(folder) / "tritonserver" / "bin" / "tritonserver" for folder in folders]
    for executable in (CONTAINER_EXECUTABLE, *in_wheel):
        if _is_executable(executable):
            is_container = executable == CONTAINER_EXECUTABLE
            return _describe(executable, "container" if is_container else "wheel")
    private = find_private_server()
    return None if private is None else _describe(private / EXECUTABLE, "private")


def _named_executable(path: Path, given_by: str) -> Path:
    candidate = path / "bin" / "tritonserver" if path.is_dir() else path
    if not _is_executable(candidate):
        raise ServerError(
            f"{given_by}{path} is not a program that can be run; "
            "give the tritonserver file, or the folder that holds bin/tritonserver"
        )
    return candidate


def _describe(executable: Path, origin: str) -> ServerInstallation:
    def existing(folder: Path) -> Path | None:
        return folder if folder.is_dir() else None

    executable = executable.resolve()
    root = executable.parent.parent
    # <site-packages>/pytriton/tritonserver is the wheel's root; a container keeps lib/ in the root.
    wheel_libraries = root.parent.parent / WHEEL_LIBRARIES
    return ServerInstallation(
        executable=executable,
        origin=origin,
        library_dir=existing(wheel_libraries) or existing(root / "lib"),
        backends_dir=existing(root / "backends"),
        caches_dir=existing(root / "caches"),
        stubs_dir=existing(root / "python_backend_stubs"),
    )


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
