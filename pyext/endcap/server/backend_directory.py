"""Composes the folder that tritonserver gets as --backend-directory, out of symbolic links."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import find_stub
from endcap.triton.installation import OUR_BACKENDS, find_our_backends


def compose_backend_directory(
    target: Path,
    installation: ServerInstallation,
    *,
    needed: Collection[str] = OUR_BACKENDS,
    with_python: bool = True,
) -> None:
    """Fill a folder with our backends and those that came with the server.

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
    """Whether the server's `python` backend comes without a stub, but stubs lie beside it."""
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
