"""Tests of an environment: in another folder than it was made in, and started as Triton does."""

from __future__ import annotations

import json
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from endcap._python_process import in_one_line
from endcap.environment import ExecutionEnvironmentError
from endcap.environment.stub import find_real_stub
from endcap.errors import EndcapError
from endcap.server.locate import locate_server

_PROBE = Path(__file__).with_name("probe.py")
_TIMEOUT_S = 300
_CHUNK_BYTES = 1 << 20
_NEEDED = {
    "bin/activate": "which Triton sources before it starts a model",
    "bin/python3": "which Triton's stub takes its packages from",
}
# The server's command line: https://github.com/triton-inference-server/python_backend, in
# src/stub_launcher.cc.
_TRITON_COMMAND = 'source "$1/bin/activate" && shift && exec env LD_LIBRARY_PATH="$1" "${@:2}"'
# What `gzip` and `tarfile` raise for damaged archives, in addition to EOFError and OSError.
_DAMAGE = (tarfile.TarError, zlib.error, KeyError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class CheckedEnvironment:
    """The versions, packages (name -> version) and unpacked size of an environment that works."""

    python: str
    numpy: str
    packages: dict[str, str]
    size_bytes: int


@dataclass(frozen=True)
class NumpyLimit:
    """A version specifier for NumPy, "" without a limit, and the reason for it."""

    specifier: str
    reason: str

    def check(self, checked: CheckedEnvironment, shown: Path) -> None:
        """Raise ExecutionEnvironmentError where the stub rejects the environment's NumPy."""
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(self.specifier).contains(checked.numpy, prereleases=True):
            raise ExecutionEnvironmentError(
                f"{shown} has NumPy {checked.numpy}, and it must be numpy{self.specifier}: "
                f"{self.reason}; pack it again with numpy{self.specifier}"
            )


def find_numpy_limit(
    python: str, *, real: Path | None = None, tritonserver: Path | None = None
) -> NumpyLimit:
    """Return the NumPy versions that the stub for a Python accepts.

    Without a server, NumPy 2 is ruled out: older stubs return empty tensors with it.

    Args:
        python: Major and minor version, such as "3.11".
        real: The release's own stub; None takes that of the server.
        tritonserver: As for `locate_server`.

    Raises:
        ServerError: `tritonserver` is not a server.
        StubError: This Python has no stub.
    """
    try:
        server = locate_server(tritonserver) if real is None else None
    except EndcapError:
        if tritonserver is not None:
            raise
        return NumpyLimit("<2", "no server was found whose stub would show it; name one by --real")
    stub, description = find_real_stub(server, python, real)
    if description.takes_numpy_2:
        return NumpyLimit("", f"the stub {stub} supports any NumPy")
    if description.takes_numpy_2 is None:
        return NumpyLimit("<2", f"the stub {stub} does not show which it supports")
    return NumpyLimit("<2", f"with a later one the stub {stub} returns empty tensors")


def unpack(archive: Path, folder: Path) -> None:
    """Extract a tar.gz into `folder`, which is empty, and verify its checksum.

    Raises:
        ExecutionEnvironmentError: The archive cannot be read, is damaged, or has members that would
            leave the folder, or this Python has no filter against those (PEP 706).
    """
    if not hasattr(tarfile, "data_filter"):
        raise ExecutionEnvironmentError(
            "this Python cannot unpack archives safely; use Python 3.10.12, 3.11.4, 3.12 or later"
        )
    try:
        if archive.exists() and not archive.is_file():
            raise OSError("a pipe, a device or a folder")
        with tarfile.open(archive, "r:gz") as content:
            content.extractall(folder, filter="data")
            while content.fileobj and content.fileobj.read(_CHUNK_BYTES):
                pass  # up to the checksum
    except (EOFError, OSError, *_DAMAGE) as error:
        raise ExecutionEnvironmentError(
            f"{archive} is not a tar.gz that Triton can unpack "
            f"({in_one_line(str(error))}); copy it again, or make it by `endcap env pack`"
        ) from error


def check_archive(
    archive: Path,
    scratch: Path,
    *,
    shown: Path,
    wanted: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> CheckedEnvironment:
    """Unpack an archive into a folder of `scratch` and test it.

    It is tested without its `conda-unpack`, which Triton does not run.

    Args:
        archive: A tar.gz.
        scratch: A folder without an `unpacked` in it.
        shown: The archive's name in error messages.
        wanted: Packages that must be there and importable, in addition to NumPy.
        progress: Is called with the name of each step.

    Raises:
        ExecutionEnvironmentError: Something is missing or fails.
    """
    progress("unpacking elsewhere")
    folder = scratch / "unpacked"
    folder.mkdir()
    unpack(archive, folder)
    progress("importing")
    return check_folder(folder, shown, wanted=wanted)


def check_folder(folder: Path, shown: Path, *, wanted: Sequence[str] = ()) -> CheckedEnvironment:
    """Test an environment in a folder, with the arguments of `check_archive`."""
    folder = folder.resolve()
    for path, reason in _NEEDED.items():
        if not (folder / path).is_file():
            raise ExecutionEnvironmentError(
                f"{shown} has no {path}, {reason}; make it by `endcap env pack`"
            )
    packages = {record["name"]: record["version"] for record in conda_records(folder)}
    packages |= python_packages(folder)
    for name in wanted:
        if name not in packages:
            raise ExecutionEnvironmentError(
                f"{shown} has no {name}, which was requested; make it again by `endcap env pack`"
            )
    # -I: nothing of the user's; -B: an environment in a folder stays unmodified.
    names = {"endcap", *wanted} & packages.keys() - {"numpy"}
    output = _run(folder, shown, ["python3", "-I", "-B", str(_PROBE), "numpy", *sorted(names)])
    report = json.loads(output.splitlines()[-1])
    _check_report(report, folder, shown)
    size = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
    return CheckedEnvironment(
        python=report["python"],
        numpy=report["numpy"],
        packages=dict(sorted(packages.items())),
        size_bytes=size,
    )


def conda_records(prefix: Path) -> list[dict[str, Any]]:
    """Return what conda has written down about each package of an environment."""
    return [json.loads(f.read_text(encoding="utf-8")) for f in prefix.glob("conda-meta/*.json")]


def python_packages(prefix: Path) -> dict[str, str]:
    """Return name and version of each Python distribution, of conda or pip."""
    from packaging.utils import canonicalize_name

    folders = map(str, prefix.glob("lib/python3.*/site-packages"))
    return {canonicalize_name(each.name): each.version for each in distributions(path=[*folders])}


def _run(folder: Path, shown: Path, command: Sequence[str]) -> str:
    """Return the output of a command, run as the server runs its stub."""
    try:
        finished = subprocess.run(
            ["bash", "-c", _TRITON_COMMAND, "bash", str(folder), str(folder / "lib"), *command],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"},
            cwd="/", capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise ExecutionEnvironmentError(
            f"python3 of {shown} ends with {error.returncode}: "
            f"{in_one_line(error.stderr[-1000:])}; take Python from another --channel"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ExecutionEnvironmentError(
            f"python3 of {shown} has not imported its packages in {_TIMEOUT_S} seconds; "
            "leave out the package that hangs"
        ) from error
    return finished.stdout


def _check_report(report: dict[str, Any], folder: Path, shown: Path) -> None:
    if Path(report["prefix"]).resolve() != folder:
        raise ExecutionEnvironmentError(
            f"python3 of {shown} takes its packages from {report['prefix']}, not from where it was "
            "unpacked; make it by `endcap env pack`, a virtual environment cannot be moved"
        )
    if report["error"] is not None:
        raise ExecutionEnvironmentError(
            f"a module of {shown} cannot be imported: {in_one_line(report['error'])}; request "
            "another version of it, or the missing module"
        )
    libpython = folder / "lib" / f"libpython{report['python']}.so.1.0"
    if not libpython.is_file():
        raise ExecutionEnvironmentError(
            f"{shown} has no lib/{libpython.name}, which Triton's stub loads; "
            "take Python from a channel that builds it shared, such as conda-forge"
        )
    if report["numpy"] is None:
        raise ExecutionEnvironmentError(
            f"{shown} has no NumPy, which Triton's stub needs; add it by `--package numpy`"
        )
