"""Tests of an environment: in another folder than it was made in, and started as Triton does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap._python_process import in_one_line
from endcap.environment.archive import unpack
from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.options import NumpyLimit
from endcap.environment.site_packages import Package, packages

_PROBE = Path(__file__).with_name("probe.py")
_TIMEOUT_S = 300
_NEEDED = {
    "bin/activate": "which Triton sources before it starts a model",
    "bin/python3": "which Triton's stub takes its packages from",
}
# The server's command line: https://github.com/triton-inference-server/python_backend, in
# src/stub_launcher.cc.
_TRITON_COMMAND = 'source "$1/bin/activate" && shift && exec env LD_LIBRARY_PATH="$1" "${@:2}"'


@dataclass(frozen=True, kw_only=True)
class CheckedEnvironment:
    """The versions, packages and unpacked size of an environment that works."""

    python: str
    numpy: str
    packages: list[Package]
    size_bytes: int


def check_archive(
    archive: Path,
    scratch: Path,
    *,
    shown: Path,
    wanted: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> CheckedEnvironment:
    """Unpack an archive into a folder of `scratch` and test it.

    It is tested as it is, as Triton uses it, and again after its `conda-unpack`.

    Args:
        archive: A tar.gz.
        scratch: A folder without an `unpacked` in it.
        shown: The archive's name in error messages.
        wanted: Packages that must be there and importable, beside NumPy.
        progress: Is called with the name of each step.

    Raises:
        ExecutionEnvironmentError: Something is missing or fails.
        OSError: The archive cannot be read or unpacked.
    """
    progress("unpacking elsewhere")
    folder = scratch / "unpacked"
    folder.mkdir()
    unpack(archive, folder)
    progress("importing")
    checked = check_folder(folder, shown, wanted=wanted)
    if (folder / "bin" / "conda-unpack").is_file():
        _run(folder, shown, ["python3", str(folder / "bin" / "conda-unpack")])
        check_folder(folder, shown, wanted=wanted)
    return checked


def check_folder(folder: Path, shown: Path, *, wanted: Sequence[str] = ()) -> CheckedEnvironment:
    """Test an environment in a folder, with the arguments of `check_archive`."""
    folder = folder.resolve()
    for path, reason in _NEEDED.items():
        if not (folder / path).is_file():
            raise ExecutionEnvironmentError(
                f"{shown} has no {path}, {reason}; make it by `endcap env pack`"
            )
    held = packages(folder)
    names = {package.name for package in held}
    for name in wanted:
        if name not in names:
            raise ExecutionEnvironmentError(
                f"{shown} has no {name}, which was requested; make it again by `endcap env pack`"
            )
    ours = {"endcap"} & names
    report = _probe(folder, shown, ["numpy", *sorted({*ours, *wanted})])
    _check_report(report, folder, shown)
    return CheckedEnvironment(
        python=report["python"],
        numpy=report["numpy"],
        packages=held,
        size_bytes=sum(package.size_bytes for package in held),
    )


def check_numpy(checked: CheckedEnvironment, limit: NumpyLimit, shown: Path) -> None:
    """Raise ExecutionEnvironmentError where the stub does not accept the environment's NumPy."""
    from packaging.specifiers import SpecifierSet

    if not SpecifierSet(limit.specifier).contains(checked.numpy, prereleases=True):
        raise ExecutionEnvironmentError(
            f"{shown} has NumPy {checked.numpy}, and it must be numpy{limit.specifier}: "
            f"{limit.reason}; pack it again with numpy{limit.specifier}"
        )


def _probe(folder: Path, shown: Path, names: Sequence[str]) -> dict[str, Any]:
    # -I: nothing of the user's; -B: an environment in a folder stays as it is.
    output = _run(folder, shown, ["python3", "-I", "-B", str(_PROBE), *names])
    report = json.loads(output.splitlines()[-1])
    assert isinstance(report, dict)  # the probe prints one
    return report


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
    for name, error in report["imports"].items():
        if error is not None:
            raise ExecutionEnvironmentError(
                f"the module {name} of {shown} cannot be imported: {in_one_line(error)}; "
                "request another version of it, or the missing module"
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
