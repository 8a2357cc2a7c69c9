"""The stub in a Python model's folder: endcap's front, and the release's own that it starts."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from endcap._files import whole_file
from endcap._pip_commands import find_in_package
from endcap.environment import StubError
from endcap.errors import ServerError
from endcap.server.locate import ServerInstallation, locate_server
from endcap.server.release import read_release
from endcap.triton.model_config import CONFIG_NAME

STUB_NAME = "triton_python_backend_stub"
REAL_STUB_NAME = f"{STUB_NAME}.real"
SETTINGS_NAME = "endcap-stub.json"
_MARK = b"ENDCAP_STUB_REFUSAL"  # in the text of the front, and of no other stub
_BACKEND_LIBRARY = "libtriton_python.so"


@dataclass(frozen=True, kw_only=True)
class StubDescription:
    """The Python of a stub ("3.11"), and whether it accepts NumPy 2, if known."""

    python: str
    takes_numpy_2: bool | None


def find_front() -> Path:
    """Return the compiled front of this package; raise StubError where it was not built."""
    program = Path("backends", "python_stub", STUB_NAME)
    return find_in_package(program, "the compiled stub is", StubError)


def is_front(program: Path) -> bool:
    """Return whether a stub in a model's folder is this package's front, of any version."""
    return program.is_file() and _MARK in program.read_bytes()


def describe(file: Path) -> StubDescription:
    """Return the description of a stub.

    Raises:
        StubError: The file is not a stub.
    """
    content = file.read_bytes()
    # Tools that bundle libraries put a hash into the name: libpython3-419a3a08.13.so.1.0.
    library = re.search(rb"\0libpython3(?:-[0-9a-f]+)?\.(\d{1,3})[a-z]?\.so[.0-9]*\0", content)
    if not content.startswith(b"\x7fELF") or library is None:
        raise StubError(
            f"{file} is not a stub: it is not a program that needs a libpython3; name the "
            f"{STUB_NAME} of a Triton server's release"
        )
    # pybind11 imports NumPy's C functions by the name of a module, which differs in NumPy 2; only
    # releases that support NumPy 2 contain that name.
    names_either = b"numpy._core" in content or b"numpy.core.multiarray" in content
    takes_numpy_2 = b"numpy._core" in content if names_either else None
    return StubDescription(python=f"3.{int(library[1])}", takes_numpy_2=takes_numpy_2)


@dataclass(frozen=True, kw_only=True)
class InstalledStub:
    """The files of a stub in a model's folder.

    Attributes:
        description: Of the release's stub.
        release: The server that the stub is from, None where that is not known.
    """

    front: Path
    real: Path
    settings: Path
    description: StubDescription
    release: str | None


def install(
    model_dir: Path,
    *,
    python_version: str,
    real: Path | None = None,
    tritonserver: Path | None = None,
) -> InstalledStub:
    """Put the stub into a model's folder, and replace one of endcap's that is there.

    Args:
        model_dir: The folder of one model.
        python_version: Of the environment that the model runs in, "3.11".
        real: The release's own stub for this Python; None takes it from the server.
        tritonserver: The server that will run the model, as for `locate_server`.

    Raises:
        StubError: The folder is not a model or has another stub, or there is none for this
            Python.
        OSError: The folder cannot be written.
    """
    if not (model_dir / CONFIG_NAME).is_file() and not [*model_dir.glob("[0-9]*/")]:
        raise StubError(
            f"{model_dir} is not a model's folder (it has neither a config.pbtxt nor a version "
            "folder such as 1/); name the folder of one model of the repository"
        )
    _refuse_others(model_dir)
    try:
        needs_server = real is None or tritonserver is not None
        server = locate_server(tritonserver) if needs_server else None
    except ServerError as error:
        raise StubError(f"{error}; or give the stub of the release with --real") from error
    source, description = find_real_stub(server, python_version, real)
    settings = _server_settings(server) if server is not None else {}
    installed = InstalledStub(
        front=model_dir / STUB_NAME,
        real=model_dir / REAL_STUB_NAME,
        settings=model_dir / SETTINGS_NAME,
        description=description,
        release=str(read_release(server)) if server is not None else None,
    )
    text = json.dumps(settings, indent=2) + "\n"
    for target, content, mode in (
        (installed.real, source.read_bytes(), 0o755),
        (installed.settings, text.encode(), 0o644),
        (installed.front, find_front().read_bytes(), 0o755),
    ):
        if target.is_symlink():  # to a file of another model, perhaps
            target.unlink()
        with whole_file(target, follow_links=False, mode=mode, replace_read_only=True) as file:
            file.write(content)
    return installed


def _refuse_others(model_dir: Path) -> None:
    """Raise StubError where files of a stub are in the folder that endcap has not put there."""
    if is_front(model_dir / STUB_NAME):
        return
    for name in (STUB_NAME, REAL_STUB_NAME, SETTINGS_NAME):
        if os.path.lexists(model_dir / name):
            raise StubError(
                f"{model_dir / name} exists and was not created by `endcap stub install`; move it "
                "away, and try again"
            )


def find_real_stub(
    server: ServerInstallation | None, python_version: str, real: Path | None
) -> tuple[Path, StubDescription]:
    """Return the release's own stub for a Python: `real`, or one of the server's.

    Raises:
        StubError: There is none, or where `real` is for another Python.
    """
    if real is not None:
        description = describe(real)
        if description.python != python_version:
            raise StubError(
                f"{real} is a stub for Python {description.python}, not "
                f"{python_version}; name one for Python {python_version}"
            )
        return real, description
    assert server is not None  # it was looked for
    versions: list[str] = []
    for stub in _find_stubs(server):
        description = describe(stub)
        if description.python == python_version:
            return stub, description
        versions.append(description.python)
    raise StubError(
        f"the server {server.executable} has no stub for Python {python_version}, only for "
        f"{', '.join(versions) or 'none'}; take one of these with --python, or give one with --real"
    )


def _find_stubs(server: ServerInstallation) -> list[Path]:
    folders = [server.backends_dir / "python"] if server.backends_dir is not None else []
    if server.stubs_dir is not None:
        folders += sorted(server.stubs_dir.iterdir(), key=lambda each: (len(each.name), each.name))
    return [folder / STUB_NAME for folder in folders if (folder / STUB_NAME).is_file()]


def _server_settings(server: ServerInstallation) -> dict[str, object]:
    settings: dict[str, object] = {"release": str(read_release(server))}
    library = server.backends_dir / "python" / _BACKEND_LIBRARY if server.backends_dir else None
    if library is not None and library.is_file():
        settings["server_bytes"] = library.stat().st_size
    if server.stubs_dir is not None and server.library_dir is not None:
        # The wheel's stubs find their libraries by their own path, which the copy does not have.
        settings["library_folders"] = [str(server.library_dir)]
    return settings
