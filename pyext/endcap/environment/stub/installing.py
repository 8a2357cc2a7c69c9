"""Puts the stub into a model's folder: the front, and the release's own that it starts."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from endcap.environment.stub.errors import StubError
from endcap.environment.stub.front import (
    REAL_STUB_NAME,
    SETTINGS_NAME,
    STUB_NAME,
    StubDescription,
    describe,
    find_front,
)
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.release import read_release
from endcap.triton.errors import ServerError

_BACKEND_LIBRARY = "libtriton_python.so"


@dataclass(frozen=True, kw_only=True)
class InstalledStub:
    """What was put into a model's folder.

    Attributes:
        python_version: Of the Python that the release's stub embeds, for example "3.11".
        takes_numpy_2: False where the environment must have numpy<2, None where the stub does not
            tell.
        release: The server that the stub is from, None where that is not known.
    """

    front: Path
    real: Path
    settings: Path
    python_version: str
    takes_numpy_2: bool | None
    release: str | None


def install(
    model_dir: Path,
    *,
    python_version: str,
    real: Path | None = None,
    tritonserver: Path | None = None,
) -> InstalledStub:
    """Make a model's folder carry the stub; what it had of one is replaced.

    Args:
        python_version: Of the environment that the model runs in, "3.11".
        real: The release's own stub for this Python; None takes it from the server.
        tritonserver: The server that will run the model, as for `locate_server`.

    Raises:
        StubError: The folder is no model, where there is no stub for this Python, or where `real`
            is for another.
        OSError: The folder cannot be written.
    """
    if not _is_model(model_dir):
        raise StubError(
            f"{model_dir} is no model's folder (it has neither a config.pbtxt nor a version "
            "folder such as 1/); name the folder of one model of the repository"
        )
    server = _server(tritonserver) if real is None or tritonserver is not None else None
    source, description = find_real_stub(server, python_version, real)
    settings: dict[str, object] = {"stub": REAL_STUB_NAME, "stub_build_id": description.build_id}
    if server is not None:
        settings.update(_settings_of(server))
    placed = InstalledStub(
        front=model_dir / STUB_NAME,
        real=model_dir / REAL_STUB_NAME,
        settings=model_dir / SETTINGS_NAME,
        python_version=python_version,
        takes_numpy_2=description.takes_numpy_2,
        release=str(read_release(server)) if server is not None else None,
    )
    _copy_program(source, placed.real)
    _write(placed.settings, (json.dumps(settings, indent=2) + "\n").encode(), mode=0o644)
    _copy_program(find_front(), placed.front)
    return placed


def _is_model(folder: Path) -> bool:
    return folder.is_dir() and (
        (folder / "config.pbtxt").is_file()
        or any(path.is_dir() and path.name.isdecimal() for path in folder.iterdir())
    )


def _server(tritonserver: Path | None) -> ServerInstallation:
    try:
        return locate_server(tritonserver)
    except ServerError as error:
        raise StubError(f"{error}; or give the stub of the release with --real") from error


def find_real_stub(
    server: ServerInstallation | None, python_version: str, real: Path | None
) -> tuple[Path, StubDescription]:
    """Return the release's own stub for a Python: `real`, or what a server brings.

    Raises:
        StubError: There is none, or where `real` is for another Python.
    """
    if real is not None:
        description = describe(real)
        if description.python != python_version:
            raise StubError(
                f"{real} is a stub for Python {description.python or 'of unknown version'}, not "
                f"{python_version}; name one for Python {python_version}"
            )
        return real, description
    assert server is not None  # it was looked for
    there: list[str] = []
    for stub in _stubs_of(server):
        description = describe(stub)
        if description.python == python_version:
            return stub, description
        there.append(description.python or "an unknown version")
    raise StubError(
        f"the server {server.executable} has no stub for Python {python_version}, only for "
        f"{', '.join(there) or 'none'}; take one of these with --python, or give one with --real"
    )


def _stubs_of(server: ServerInstallation) -> list[Path]:
    folders: list[Path] = []
    if server.backends_dir is not None:
        folders.append(server.backends_dir / "python")
    if server.stubs_dir is not None:
        folders += sorted(server.stubs_dir.iterdir(), key=_minor)
    return [folder / STUB_NAME for folder in folders if (folder / STUB_NAME).is_file()]


def _minor(folder: Path) -> int:
    minor = folder.name.partition(".")[2]
    return int(minor) if minor.isdecimal() else 0


def _settings_of(server: ServerInstallation) -> dict[str, object]:
    settings: dict[str, object] = {"release": str(read_release(server))}
    library = server.backends_dir / "python" / _BACKEND_LIBRARY if server.backends_dir else None
    if library is not None and library.is_file():
        settings["server_build_id"] = describe(library).build_id
    if server.stubs_dir is not None and server.library_dir is not None:
        # The wheel's stubs find their libraries by their own place, which the copy leaves.
        settings["library_folders"] = [str(server.library_dir)]
    return settings


def _copy_program(source: Path, target: Path) -> None:
    _write(target, source.read_bytes(), mode=0o755)


def _write(target: Path, content: bytes, *, mode: int) -> None:
    """Replace a file in one step: a server may be starting the one that is there."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
