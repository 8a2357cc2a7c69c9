"""The stub in a Python model's folder: endcap's front, and the release's own that it starts."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import endcap
from endcap._files import whole_file
from endcap._pip_commands import reinstall_command
from endcap.environment.archive import unpack_for_stub
from endcap.environment.errors import StubError
from endcap.errors import InvalidArgumentError
from endcap.server.locate import ServerInstallation, locate_if_there, locate_server
from endcap.server.plan import server_environment
from endcap.server.private_server import find_packages
from endcap.server.release import read_release
from endcap.triton.config_edits import get_parameter
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder, read_model_folder
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

__all__ = ["Check", "InstalledStub", "StubError", "StubReport", "check", "install"]

STUB_NAME = "triton_python_backend_stub"
REAL_STUB_NAME = f"{STUB_NAME}.real"
SETTINGS_NAME = "endcap-stub.json"
LOG_NAME = "endcap-stub.log"
_MARK = b"ENDCAP_STUB_REFUSAL"  # in the text of the front, and of no other stub
_MAX_FRONT_BYTES = 64 << 20
_TIMEOUT_S = 60.0
_BACKEND_LIBRARY = "libtriton_python.so"


@dataclass(frozen=True, kw_only=True)
class StubDescription:
    """The Python of a stub ("3.11"), its build ID, and whether it accepts NumPy 2, if known."""

    python: str | None
    build_id: str
    takes_numpy_2: bool | None


def find_front() -> Path:
    """Return the compiled front of this package.

    Raises:
        StubError: The front was not built.
    """
    # An editable install has two package folders: the sources, and the build.
    for root in endcap.__path__:
        program = Path(root) / "backends" / "python_stub" / STUB_NAME
        if program.is_file():
            return program
    raise StubError(
        f"the compiled stub is not in this installation of endcap (searched "
        f"{', '.join(endcap.__path__)}); reinstall it with `{reinstall_command()}`"
    )


def is_front(program: Path) -> bool:
    """Return whether a stub in a model's folder is this package's front, of any version."""
    if not program.is_file() or not 0 < program.stat().st_size <= _MAX_FRONT_BYTES:
        return False
    with (
        program.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(_MARK) >= 0


def describe(file: Path) -> StubDescription:
    """Return the description of a stub.

    Raises:
        StubError: The file is no program for this machine.
    """
    finished = _run(find_front(), "--describe", str(file))
    if finished.returncode != 0:
        raise StubError(
            f"{file} is no stub: it is not a program of this machine; name the "
            f"{STUB_NAME} of a Triton server's release"
        )
    return StubDescription(**json.loads(finished.stdout))


def _run_checks(
    model_dir: Path, backend_folder: Path | None, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the report of this package's front on a model; nothing of the model is run.

    Args:
        model_dir: The model's folder.
        backend_folder: The server's backends/python, None where there is none.
        environment: The variables that Triton would start the stub with.
    """
    front = find_front()
    # Started with the model's own LD_LIBRARY_PATH, it would load the model's libraries.
    own = {**environment, "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    if not own["LD_LIBRARY_PATH"]:
        del own["LD_LIBRARY_PATH"]
    folders = filter(None, environment.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    finished = _run(
        front,
        *("--check", str(model_dir), str(backend_folder or ""), os.pathsep.join(folders)),
        environment=own,
    )
    try:
        report: dict[str, Any] = json.loads(finished.stdout)
    except ValueError as error:
        raise StubError(
            f"{front} gives no report ({finished.stderr.strip() or 'it prints nothing'}); install "
            "endcap again"
        ) from error
    return report


def _run(
    program: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(program), *arguments],
            env=None if environment is None else dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise StubError(f"{program} cannot be run: {error.strerror}; install it again") from error
    except subprocess.TimeoutExpired as error:
        raise StubError(
            f"{program} does not respond within {_TIMEOUT_S:g} s; check that the folders of "
            "the model, of its environment and on PATH can be read"
        ) from error


@dataclass(frozen=True, kw_only=True)
class InstalledStub:
    """The files of a stub in a model's folder.

    Attributes:
        python_version: Of the Python that the release's stub embeds, for example "3.11".
        takes_numpy_2: False where the environment must have numpy<2, None where the stub does not
            say.
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
    """Put the stub into a model's folder, and replace one of endcap's that is there.

    Args:
        model_dir: The folder of one model.
        python_version: Of the environment that the model runs in, "3.11".
        real: The release's own stub for this Python; None takes it from the server.
        tritonserver: The server that will run the model, as for `locate_server`.

    Raises:
        StubError: The folder is no model or has a stub of its own, or there is none for this
            Python.
        OSError: The folder cannot be written.
    """
    if not _is_model(model_dir):
        raise StubError(
            f"{model_dir} is no model's folder (it has neither a config.pbtxt nor a version "
            "folder such as 1/); name the folder of one model of the repository"
        )
    _refuse_others(model_dir)
    server = _locate_server(tritonserver) if real is None or tritonserver is not None else None
    source, description = find_real_stub(server, python_version, real)
    settings: dict[str, object] = {"stub": REAL_STUB_NAME, "stub_build_id": description.build_id}
    if server is not None:
        settings.update(_server_settings(server))
    installed = InstalledStub(
        front=model_dir / STUB_NAME,
        real=model_dir / REAL_STUB_NAME,
        settings=model_dir / SETTINGS_NAME,
        python_version=python_version,
        takes_numpy_2=description.takes_numpy_2,
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
                f"{model_dir / name} is there already, and `endcap stub install` has not made it; "
                "move it away, and try again"
            )


def _is_model(folder: Path) -> bool:
    return folder.is_dir() and (
        (folder / "config.pbtxt").is_file()
        or any(path.is_dir() and path.name.isdecimal() for path in folder.iterdir())
    )


def _locate_server(tritonserver: Path | None) -> ServerInstallation:
    try:
        return locate_server(tritonserver)
    except ServerError as error:
        raise StubError(f"{error}; or give the stub of the release with --real") from error


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
                f"{real} is a stub for Python {description.python or 'of unknown version'}, not "
                f"{python_version}; name one for Python {python_version}"
            )
        return real, description
    assert server is not None  # it was looked for
    versions: list[str] = []
    for stub in _find_stubs(server):
        description = describe(stub)
        if description.python == python_version:
            return stub, description
        versions.append(description.python or "an unknown version")
    raise StubError(
        f"the server {server.executable} has no stub for Python {python_version}, only for "
        f"{', '.join(versions) or 'none'}; take one of these with --python, or give one with --real"
    )


def _find_stubs(server: ServerInstallation) -> list[Path]:
    folders: list[Path] = []
    if server.backends_dir is not None:
        folders.append(server.backends_dir / "python")
    if server.stubs_dir is not None:
        folders += sorted(server.stubs_dir.iterdir(), key=_minor)
    return [folder / STUB_NAME for folder in folders if (folder / STUB_NAME).is_file()]


def _minor(folder: Path) -> int:
    minor = folder.name.partition(".")[2]
    return int(minor) if minor.isdecimal() else 0


def _server_settings(server: ServerInstallation) -> dict[str, object]:
    settings: dict[str, object] = {"release": str(read_release(server))}
    library = server.backends_dir / "python" / _BACKEND_LIBRARY if server.backends_dir else None
    if library is not None and library.is_file():
        settings["server_build_id"] = describe(library).build_id
    if server.stubs_dir is not None and server.library_dir is not None:
        # The wheel's stubs find their libraries by their own path, which the copy does not have.
        settings["library_folders"] = [str(server.library_dir)]
    return settings


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check; `problem` is an error message, None where all is well."""

    name: str
    found: str
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class StubReport:
    """The checks of a model's stub; `python` and `stub` are those that would run, or None."""

    model: str
    checks: tuple[Check, ...]
    python: str | None = None
    stub: str | None = None

    @property
    def problem(self) -> str | None:
        """The first problem, with which loading the model would fail."""
        return next((check.problem for check in self.checks if check.problem), None)


def check(model_dir: Path, *, tritonserver: Path | None = None) -> StubReport:
    """Make the checks of a model's stub in the environment that `endcap serve` would give it.

    The file in the model's folder is not run: this package's own front checks the model.

    Args:
        model_dir: The folder of one model.
        tritonserver: As for `locate_server`. Without a server, the environment of this process
            is used.

    Raises:
        ServerError: `tritonserver` is no server.
    """
    model = read_model_folder(model_dir)
    server = locate_if_there(tritonserver)
    front = model_dir / STUB_NAME
    if not is_front(front):
        found = "another stub" if front.exists() else "none"
        problem = (
            f"{model_dir} carries no stub of endcap's; put it there with "
            f"`endcap stub install {model_dir}`"
        )
        return _report(model, Check(name="front", found=found, problem=problem))
    try:
        with _environment(model, server) as (environment, backend_folder):
            report = _run_checks(model_dir, backend_folder, environment)
    except (StubError, ServerError, InvalidArgumentError) as error:
        return _report(model, Check(name="environment", found="unusable", problem=str(error)))
    return StubReport(
        model=model_dir.name,
        checks=tuple(Check(**each) for each in report["checks"]),
        python=report["python"],
        stub=report["stub"],
    )


def execution_environment(model: ModelFolder) -> Path | None:
    """Return the archive or folder that a model's EXECUTION_ENV_PATH names, None without one.

    Raises:
        InvalidArgumentError: The brackets or strings of its config.pbtxt do not close.
    """
    value = get_parameter(model.text, EXECUTION_ENVIRONMENT)
    return None if value is None else Path(value.replace(MODEL_DIRECTORY, str(model.path)))


def _report(model: ModelFolder, *checks: Check) -> StubReport:
    return StubReport(model=model.path.name, checks=checks)


@contextmanager
def _environment(
    model: ModelFolder, server: ServerInstallation | None
) -> Iterator[tuple[Mapping[str, str], Path | None]]:
    """Yield the variables of a stub's process, and the folder of the server's backend."""
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        variables = dict(os.environ)
        backend_folder = None
        if server is not None:
            packages = find_packages() if server.is_private else None
            variables = server_environment(server, scratch, packages)
            if server.backends_dir is not None:
                backend_folder = server.backends_dir / "python"
        packed = execution_environment(model)
        if packed is not None:
            prefix = packed.absolute() if packed.is_dir() else scratch / "environment"
            if not packed.is_dir():
                unpack_for_stub(packed, prefix)
            _activate(prefix, variables)
        yield variables, backend_folder


def _activate(prefix: Path, variables: dict[str, str]) -> None:
    """Change the variables as Triton does when it starts a stub."""
    if not (prefix / "bin" / "activate").is_file():
        raise StubError(
            "the environment of EXECUTION_ENV_PATH has no bin/activate, without which Triton does "
            "not start it; pack it with `endcap env pack`"
        )
    variables["PATH"] = f"{prefix / 'bin'}:{variables.get('PATH', '')}"
    variables["LD_LIBRARY_PATH"] = f"{prefix / 'lib'}:{variables.get('LD_LIBRARY_PATH', '')}"
