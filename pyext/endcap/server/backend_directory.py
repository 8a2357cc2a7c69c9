"""Composes the folder that tritonserver gets as --backend-directory, out of symbolic links."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import endcap
from endcap.server.errors import ServerError
from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import find_stub

OUR_BACKENDS = ("endcap_preprocess", "endcap_postprocess", "endcap_onnx", "endcap_bls")
# A folder of compiled backends that is used instead of the package's: a build with a sanitizer.
BACKENDS_VARIABLE = "ENDCAP_BACKENDS"


def find_our_backends(needed: Collection[str] = OUR_BACKENDS) -> dict[str, Path]:
    """Return the folder of each compiled backend of this package.

    The environment variable ENDCAP_BACKENDS names a folder to use instead of the package's.

    Args:
        needed: Backends that must be there. `make demo` builds those of the demo only.

    Raises:
        ServerError: One of these is missing.
    """
    chosen = os.environ.get(BACKENDS_VARIABLE)
    # An editable install has two package folders: the sources, and what was built.
    folders = [Path(chosen)] if chosen else [Path(root) / "backends" for root in endcap.__path__]
    found: dict[str, Path] = {}
    for name in OUR_BACKENDS:
        for folder in folders:
            if (folder / name / f"libtriton_{name}.so").is_file():
                found[name] = folder / name
                break
        if name in needed and name not in found:
            searched = ", ".join(map(str, folders))
            remedy = (
                f"unset {BACKENDS_VARIABLE}, or build the backends there"
                if chosen
                else "reinstall it with `pip install endcap`, or type `make build` in a source tree"
            )
            raise ServerError(
                f"the compiled backend {name} is not in this installation of endcap "
                f"(searched {searched}); {remedy}"
            )
    return found


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
