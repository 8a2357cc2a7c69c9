"""Backends that a server is given (--backend-directory), and the libraries that they load."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from endcap._python_process import worker_command
from endcap.errors import EndcapError
from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import find_stub
from endcap.triton.errors import ServerError
from endcap.triton.installation import OUR_BACKENDS, find_our_backends
from endcap.triton.model_folder import ModelFolder

ONNX_BACKEND = "endcap_onnx"
# Names a library; the backend reads it itself.
ONNXRUNTIME_VARIABLE = "ENDCAP_ONNXRUNTIME"

_ONNXRUNTIME = re.compile(r"libonnxruntime\.so((?:\.\d+)*)")
_DALI_LOADED_WITHIN_S = 120


def compose_backend_directory(
    target: Path,
    installation: ServerInstallation,
    *,
    needed: Collection[str] = OUR_BACKENDS,
    with_python: bool = True,
) -> None:
    """Fill a folder with links to our backends and to those that came with the server.

    A server without a stub in its `python` backend gets the one for the running Python. A backend
    of ours replaces one of the same name.

    Args:
        target: An empty folder.
        installation: The server.
        needed: Backends that the models name; of ours these must be there.
        with_python: Whether the server gets the `python` backend where that needs a stub.

    Raises:
        ServerError: A backend that is needed is missing, or the stub.
    """
    backends = find_our_backends(needed)
    for name, folder in backends.items():
        # The folder is linked, not its files: $ORIGIN then leads to the libraries beside them.
        (target / name).symlink_to(folder.resolve(), target_is_directory=True)
    if installation.backends_dir is None:
        return
    for folder in sorted(installation.backends_dir.iterdir()):
        if not folder.is_dir() or folder.name in backends:
            continue
        if needs_stub(installation) and folder.name == "python":
            if with_python:
                _compose_python(target / "python", folder, installation)
        else:
            (target / folder.name).symlink_to(folder.resolve(), target_is_directory=True)


def needs_stub(installation: ServerInstallation) -> bool:
    """Return whether the server's `python` backend lacks a stub, and stubs lie beside it."""
    if installation.backends_dir is None or installation.stubs_dir is None:
        return False
    python = installation.backends_dir / "python"
    return python.is_dir() and not (python / "triton_python_backend_stub").exists()


def _compose_python(target: Path, source: Path, installation: ServerInstallation) -> None:
    assert installation.stubs_dir is not None  # needs_stub said so
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.name != "__pycache__":
            (target / path.name).symlink_to(path.resolve())
    stub = find_stub(installation.stubs_dir)
    (target / stub.name).symlink_to(stub.resolve())


def onnxruntime_options(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> list[str]:
    """Return the option that names the library to the server's backend.

    There is none where no model needs it, ENDCAP_ONNXRUNTIME is set, or no library is found: the
    backend then says what to do about it, if its models name none either.
    """
    if os.environ.get(ONNXRUNTIME_VARIABLE) or not any(
        model.backend == ONNX_BACKEND for model in models
    ):
        return []
    library = find_onnxruntime(installation)
    return (
        []
        if library is None
        else [f"--backend-config={ONNX_BACKEND},onnxruntime_library={library}"]
    )


def find_onnxruntime(installation: ServerInstallation) -> Path | None:
    """Return the library of the installed Python package, else of the server's own backend."""
    for folder in _folders(installation):
        found = [
            (match, path)
            for path in folder.glob("libonnxruntime.so*")
            if (match := _ONNXRUNTIME.fullmatch(path.name))
        ]
        if found:
            return max(found, key=lambda each: _version(each[0][1]))[1]
    return None


def _folders(installation: ServerInstallation) -> Iterator[Path]:
    package = importlib.util.find_spec("onnxruntime")
    for folder in (package and package.submodule_search_locations) or ():
        yield Path(folder).absolute() / "capi"
    if installation.backends_dir is not None:
        yield installation.backends_dir / "onnxruntime"


def _version(suffix: str) -> tuple[int, ...]:
    return tuple(int(part) for part in suffix.split(".") if part)


def find_operators() -> Path:
    """Return the library of endcap's DALI operators, which this Python's DALI has loaded.

    That is tried in a process of its own: DALI is large.

    Raises:
        ServerError: There is no DALI, or no library for it.
    """
    command = worker_command("endcap.server.backends")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DALI_LOADED_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"DALI was not loaded within {_DALI_LOADED_WITHIN_S} s; try again"
        ) from error
    kind, _, text = (done.stdout.strip().splitlines() or [""])[-1].partition(" ")
    if kind == "library":
        return Path(text)
    if kind != "problem":
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        text = f"DALI cannot be loaded ({last}); `endcap dali info` shows what is installed"
    raise ServerError(text)


def main() -> None:
    """Print the library that is loaded into this process's DALI, or why there is none."""
    from endcap import dali

    try:
        print("library", dali.load())
    except EndcapError as error:
        print("problem", error)
