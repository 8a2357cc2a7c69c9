"""Backends that a server is given (--backend-directory), and the libraries that they load."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from endcap._pip_commands import install_command
from endcap._python_process import worker_command
from endcap.errors import ServerError
from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import find_stub, has_stub
from endcap.triton.installation import OUR_BACKENDS, find_our_backends
from endcap.triton.model_folder import ModelFolder

ONNX_BACKEND = "endcap_onnx"
# Names a library; the backend reads it itself.
ONNXRUNTIME_VARIABLE = "ENDCAP_ONNXRUNTIME"

_DALI_LOADED_WITHIN_S = 120


def compose_backend_directory(
    target: Path,
    installation: ServerInstallation,
    *,
    needed: Collection[str] = OUR_BACKENDS,
) -> None:
    """Fill a folder with links to our backends and to those that came with the server.

    A server without a stub in its `python` backend gets the one for the running Python, if it has
    one. A backend of ours replaces one of the same name.

    Args:
        target: An empty folder.
        installation: The server.
        needed: Backends that the models name; of ours these must be there.

    Raises:
        ServerError: A backend that is needed is missing.
    """
    backends = find_our_backends(needed)
    if installation.backends_dir is not None:
        others = {folder.name: folder for folder in installation.backends_dir.iterdir()}
        backends = {name: each for name, each in others.items() if each.is_dir()} | backends
    stubs = installation.stubs_dir if needs_stub(installation) else None
    for name, folder in backends.items():
        if name != "python" or stubs is None:
            # The folder is linked, not its files: $ORIGIN then leads to the libraries there.
            (target / name).symlink_to(folder.resolve(), target_is_directory=True)
            continue
        (target / name).mkdir()
        for path in [*folder.iterdir(), *([find_stub(stubs)] if has_stub(stubs) else [])]:
            if path.name != "__pycache__":
                (target / name / path.name).symlink_to(path.resolve())


def needs_stub(installation: ServerInstallation) -> bool:
    """Return whether the server's `python` backend lacks a stub, and stubs came with the server."""
    if installation.backends_dir is None or installation.stubs_dir is None:
        return False
    python = installation.backends_dir / "python"
    return python.is_dir() and not (python / "triton_python_backend_stub").exists()


def onnxruntime_options(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> list[str]:
    """Return the option that names the library to the server's backend.

    There is none where no model needs it, ENDCAP_ONNXRUNTIME is set, or no library is found: the
    backend then says what to do about it, if its models name none either.
    """
    is_needed = any(model.backend == ONNX_BACKEND for model in models)
    if os.environ.get(ONNXRUNTIME_VARIABLE) or not is_needed:
        return []
    library = find_onnxruntime(installation)
    option = f"--backend-config={ONNX_BACKEND},onnxruntime_library={library}"
    return [] if library is None else [option]


def find_onnxruntime(installation: ServerInstallation) -> Path | None:
    """Return the library of the installed Python package, else of the server's own backend."""
    package = importlib.util.find_spec("onnxruntime")
    packages = (package and package.submodule_search_locations) or ()
    folders = [Path(folder).absolute() / "capi" for folder in packages]
    if installation.backends_dir is not None:
        folders.append(installation.backends_dir / "onnxruntime")
    libraries = (path for folder in folders for path in sorted(folder.glob("libonnxruntime.so*")))
    return next(libraries, None)


def find_operators() -> Path:
    """Return the library of endcap's DALI operators, which this Python's DALI has loaded.

    That is tried in a separate process: DALI is large.

    Raises:
        ServerError: There is no DALI, or no library for it.
    """
    command = worker_command("endcap.dali.loading")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DALI_LOADED_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"DALI was not loaded within {_DALI_LOADED_WITHIN_S} s; try again"
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ServerError(
            f"DALI cannot be loaded ({last}); install it again: "
            f"`{install_command('dali', '--force-reinstall')}`"
        )
    response = json.loads(done.stdout.splitlines()[-1])
    if problem := response.get("problem"):
        raise ServerError(problem)
    return Path(response["found"])
