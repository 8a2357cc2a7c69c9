"""Packed environments: conda and pip packages in an archive that has been tested."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from endcap._python_process import PipError, in_one_line, run_pip
from endcap._version import __version__
from endcap.environment import ExecutionEnvironmentError
from endcap.environment.checking import (
    CheckedEnvironment,
    NumpyLimit,
    check_archive,
    conda_records,
    python_packages,
)
from endcap.environment.conda import (
    import_tool,
    install_conda_packages,
    resolve_channels,
    without_secrets,
)
from endcap.errors import InvalidArgumentError

RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_DEFAULT_CHANNEL = "conda-forge"
# Files that no model opens; patterns of fnmatch, whose * goes beyond a slash.
_LEFT_OUT = ("*.a", "lib/python{python}/test/*", "share/doc/*", "share/man/*")


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """The options of `endcap env pack`.

    Attributes:
        python: Major and minor version of the environment's Python, such as "3.11".
        packages: Conda specifications, such as "scipy >=1.10".
        pip_packages: Requirements for pip, or paths of wheels.
        endcap: A wheel of endcap, or the version that pip is to find.
        channels: Names, URLs or folders, the first one before the others.
        compress_level: 0 (uncompressed) to 9 (slowest).
    """

    python: str = RUNNING_PYTHON
    packages: tuple[str, ...] = ()
    pip_packages: tuple[str, ...] = ()
    endcap: str = __version__
    channels: tuple[str, ...] = (_DEFAULT_CHANNEL,)
    compress_level: int = 4

    def __post_init__(self) -> None:
        if not re.fullmatch(r"3\.\d+", self.python):
            raise InvalidArgumentError(
                f"--python is '{self.python}'; give major and minor version, such as 3.11"
            )
        for text in self.pip_packages:
            if text.lstrip().startswith("-"):  # pip would take it as an option, --index-url as well
                raise InvalidArgumentError(
                    f"--pip is '{text}'; give a requirement or a wheel, and pip's options by its "
                    "environment variables, such as PIP_INDEX_URL"
                )
        if self.endcap.endswith(".whl") and not Path(self.endcap).is_file():
            raise InvalidArgumentError(
                f"--endcap {self.endcap} does not exist; give a wheel of endcap"
            )

    @property
    def pip_requirements(self) -> list[str]:
        """All that pip installs, ours first."""
        is_wheel = self.endcap.endswith(".whl")
        ours = str(Path(self.endcap).resolve()) if is_wheel else f"endcap=={self.endcap}"
        return [ours, *self.pip_packages]


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
        InvalidArgumentError: A channel is invalid.
        ExecutionEnvironmentError: A package cannot be installed, or the environment does not work.
        OSError: A file cannot be written.
    """
    scratch = archive.parent
    prefix = scratch / "environment"
    channels = resolve_channels(options.channels)
    requested = [f"python {options.python}.*", "numpy", *options.packages]
    constraints = [f"numpy {limit.specifier}"] if limit.specifier else []
    progress("installing conda packages")
    names = install_conda_packages(requested, constraints, channels, prefix)
    if not (prefix / "bin" / "python3").is_file():
        raise ExecutionEnvironmentError(
            "the package python has no bin/python3, which Triton's stub takes its packages from; "
            "take Python from another --channel"
        )
    progress("installing with pip")
    _install_pip_packages(options, prefix)
    _remove_origins(prefix)
    progress("packing")
    _pack(prefix, archive, options)
    wanted = ["endcap", *names, *_pip_names(options)]
    shown = Path(archive.name)
    checked = check_archive(archive, scratch, shown=shown, wanted=wanted, progress=progress)
    limit.check(checked, shown)
    return checked


def _pip_names(options: PackOptions) -> list[str]:
    """Return the names of the packages that pip installs, but for bare addresses."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    names = []
    for text in options.pip_packages:
        is_wheel = text.endswith(".whl")
        with contextlib.suppress(InvalidRequirement):
            name = Path(text).name.partition("-")[0] if is_wheel else Requirement(text).name
            names.append(str(canonicalize_name(name)))
    return names


def _install_pip_packages(options: PackOptions, prefix: Path) -> None:
    """Run the pip of the Python that runs endcap for the one in `prefix`, which needs none."""
    # pip must not replace packages of conda, NumPy above all.
    constraints = prefix.with_name("constraints.txt")
    lines = [f"{name}=={version}\n" for name, version in python_packages(prefix).items()]
    constraints.write_text("".join(lines), encoding="utf-8")
    try:
        run_pip(
            *("--python", str(prefix / "bin" / "python3"), "install", "--no-input", "--quiet"),
            *("--disable-pip-version-check", "--no-warn-script-location"),
            *("--constraint", str(constraints), *options.pip_requirements),
            advice="check --pip, give the wheel by --endcap where it is endcap, or `export "
            "PIP_FIND_LINKS=DIR` for a folder of wheels",
        )
    except PipError as error:
        raise ExecutionEnvironmentError(
            f"pip could not install {', '.join(options.pip_requirements)}: {error}"
        ) from error


def _remove_origins(prefix: Path) -> None:
    """Remove the secrets and local paths that conda and pip have recorded in an environment."""
    of_conda = {path for record in conda_records(prefix) for path in record["files"]}
    for record in prefix.glob("conda-meta/*.json"):
        text = record.read_text(encoding="utf-8")
        record.write_text(without_secrets(text), encoding="utf-8")
    # In which pip notes a wheel's path: https://peps.python.org/pep-0610
    for note in prefix.glob("lib/python3.*/site-packages/*.dist-info/direct_url.json"):
        if str(note.relative_to(prefix)) not in of_conda:
            note.unlink()


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
