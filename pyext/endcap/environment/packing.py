"""Packed environments: conda and pip packages in an archive that has been tested."""

from __future__ import annotations

import contextlib
import csv
import io
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from endcap._python_process import (
    PipError,
    environment_for_pip,
    in_one_line,
    pip_command,
    pip_errors,
)
from endcap.environment.checking import CheckedEnvironment, check_archive, check_numpy
from endcap.environment.conda import install_conda_packages, without_secrets
from endcap.environment.errors import ExecutionEnvironmentError, import_tool
from endcap.environment.options import NumpyLimit, PackOptions
from endcap.environment.site_packages import distributions, files_of_conda

# The file in which pip notes a wheel's path: https://peps.python.org/pep-0610
_DIRECT_URL = "direct_url.json"
# Files that no model opens; patterns of fnmatch, whose * goes beyond a slash.
_LEFT_OUT = ("*.a", "lib/python{python}/test/*", "share/doc/*", "share/man/*")


def build_archive(
    options: PackOptions,
    archive: Path,
    *,
    limit: NumpyLimit,
    progress: Callable[[str], None] = lambda _: None,
) -> CheckedEnvironment:
    """Install, pack and test an environment; return its contents.

    Args:
        options: The contents and their sources.
        archive: The file to write. Intermediate files are left in its folder.
        limit: The NumPy versions that the server's stub accepts.
        progress: Is called with the name of each step.

    Raises:
        InvalidArgumentError: A specification or a channel is invalid.
        ExecutionEnvironmentError: A package cannot be installed, or the environment does not work.
        OSError: A file cannot be written.
    """
    scratch = archive.parent
    prefix = scratch / "environment"
    names = install_conda_packages(options, limit, prefix, progress)
    _check_python(prefix, options)
    progress("installing with pip")
    _install_pip_packages(options, prefix)
    _remove_origins(prefix)
    progress("packing")
    _pack(prefix, archive, options)
    wanted = ["endcap", *names, *_pip_names(options)]
    shown = Path(archive.name)
    checked = check_archive(archive, scratch, shown=shown, wanted=wanted, progress=progress)
    check_numpy(checked, limit, shown)
    return checked


def _check_python(prefix: Path, options: PackOptions) -> None:
    if not (prefix / "bin" / "python3").is_file():
        channels = without_secrets(", ".join(options.channels))
        raise ExecutionEnvironmentError(
            f"the package python of {channels} has no bin/python3, which "
            "Triton's stub takes its packages from; take Python from another --channel"
        )


def _pip_names(options: PackOptions) -> list[str]:
    """Return the names of the packages that pip installs, but for bare addresses."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    names = []
    for text in options.pip_packages:
        try:
            if text.endswith(".whl"):
                names.append(str(parse_wheel_filename(Path(text).name)[0]))
            else:
                names.append(str(canonicalize_name(Requirement(text).name)))
        except (InvalidRequirement, InvalidWheelFilename):
            continue
    return names


def _install_pip_packages(options: PackOptions, prefix: Path) -> None:
    """Run the pip of the Python that runs endcap for the one in `prefix`, which needs none."""
    # pip must not replace packages of conda, NumPy above all.
    constraints = prefix.with_name("constraints.txt")
    lines = [f"{name}=={version}\n" for name, version in distributions(prefix)]
    constraints.write_text("".join(lines), encoding="utf-8")
    try:
        pip, environment = pip_command(), environment_for_pip()
    except PipError as error:
        raise ExecutionEnvironmentError(str(error)) from error
    command = [
        *pip, "--python", str(prefix / "bin" / "python3"),
        "install", "--no-input", "--disable-pip-version-check", "--no-warn-script-location",
        "--quiet", "--constraint", str(constraints), *_sources(options), *options.pip_requirements,
    ]  # fmt: skip
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise ExecutionEnvironmentError(_pip_failure(finished.stderr, options))


def _sources(options: PackOptions) -> list[str]:
    sources = ["--no-index"] if options.offline else []
    for folder in options.find_links:
        sources += ["--find-links", str(folder)]
    return sources


def _pip_failure(stderr: str, options: PackOptions) -> str:
    advice = "check what --pip asks for, and give the wheel by --endcap where it is endcap"
    if options.offline:
        advice += ", and put the wheels into a folder of --find-links"
    reason = pip_errors(stderr)
    return f"pip could not install {', '.join(options.pip_requirements)}: {reason}; {advice}"


def _remove_origins(prefix: Path) -> None:
    """Remove the secrets and local paths that conda and pip have recorded in an environment."""
    for record in (prefix / "conda-meta").glob("*.json"):
        text = record.read_text(encoding="utf-8")
        record.write_text(without_secrets(text), encoding="utf-8")
    of_conda = files_of_conda(prefix)
    for note in prefix.glob(f"lib/python3.*/site-packages/*.dist-info/{_DIRECT_URL}"):
        if str(note.relative_to(prefix)) not in of_conda:
            note.unlink()
            _remove_from_record(note)


def _remove_from_record(file: Path) -> None:
    record = file.with_name("RECORD")
    removed = f"{file.parent.name}/{file.name}"
    rows = csv.reader(io.StringIO(record.read_text(encoding="utf-8")))
    kept = io.StringIO()
    csv.writer(kept, lineterminator="\n").writerows(row for row in rows if row[:1] != [removed])
    record.write_text(kept.getvalue(), encoding="utf-8")


def _pack(prefix: Path, archive: Path, options: PackOptions) -> None:
    """Write the environment in `prefix` to `archive`, a tar.gz."""
    conda_pack = import_tool("conda_pack")
    try:
        with warnings.catch_warnings(), _temporary_files_in(archive.parent):
            warnings.simplefilter("ignore")  # of packages whose cache is gone
            environment = conda_pack.CondaEnv.from_prefix(str(prefix))
            for pattern in _LEFT_OUT:
                environment = environment.exclude(pattern.format(python=options.python))
            environment.pack(str(archive), format="tar.gz", compress_level=options.compress_level)
    except conda_pack.CondaPackException as error:
        raise ExecutionEnvironmentError(
            f"conda-pack does not pack the environment: {in_one_line(str(error))}; take the "
            "package that it names from the channel or from pip, not from both"
        ) from error


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Set the temporary folder; conda-pack leaves a file there when it is interrupted."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
