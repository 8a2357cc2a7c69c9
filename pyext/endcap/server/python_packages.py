"""The environment of Python models on endcap's own server: NumPy below 2, and what they import.

The packages are installed into the cache once for each Python and set of requirements. A launch
makes a virtual environment of the running Python out of links to them and to this endcap, so that
the models have neither the user's packages nor an older endcap.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import endcap
from endcap._system.stages import Progress, no_progress
from endcap.server.cache import cache_folder, find_entry, make_entry
from endcap.server.downloads import run_pip, wheelhouse_of
from endcap.server.python_stub import PYTHON_VERSION
from endcap.triton.errors import ServerError

# More packages for Python models, such as "opencv-python-headless torch==2.4".
PACKAGES_VARIABLE = "ENDCAP_SERVER_PACKAGES"

_WHAT = "what Python models need"
# With NumPy 2 the stubs of the packaged server answer empty tensors. The other is what the shipped
# detector and classifier run on.
_NEEDED = ("numpy<2", "onnxruntime>=1.17")
_NEWEST_WITH_NUMPY_1 = (3, 12)


def requirements() -> list[str]:
    """Return what is installed for Python models: endcap's own needs, NumPy below 2, and more.

    Raises:
        ServerError: ENDCAP_SERVER_PACKAGES holds something that is no requirement.
    """
    from packaging.requirements import Requirement

    own = [Requirement(line) for line in importlib.metadata.requires("endcap") or ()]
    needed = [r for r in own if r.marker is None or r.marker.evaluate({"extra": ""})]
    return sorted({*(f"{r.name}{r.specifier}" for r in needed), *_NEEDED, *more_packages()})


def more_packages() -> list[str]:
    """Return the requirements that ENDCAP_SERVER_PACKAGES adds.

    Raises:
        ServerError: One of them is none.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        words = shlex.split(os.environ.get(PACKAGES_VARIABLE, ""))
        return [str(Requirement(word)) for word in words]
    except (ValueError, InvalidRequirement) as error:
        reason = str(error).splitlines()[0]
        raise ServerError(
            f"{PACKAGES_VARIABLE} must be requirements with spaces between, such as "
            f"'opencv-python-headless torch==2.4', got {os.environ[PACKAGES_VARIABLE]!r} ({reason})"
        ) from error


def packages_folder() -> Path:
    """Return where the packages for this Python are or would be.

    Raises:
        ServerError: As for `requirements`.
    """
    identity = [platform.machine(), str(sys.implementation.cache_tag), *requirements()]
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()
    return cache_folder() / f"python-{PYTHON_VERSION}-{digest[:12]}"


def find_packages() -> Path | None:
    """Return the folder of the packages, None where they are not installed.

    Raises:
        ServerError: The cache is not safe, or holds something else in its place.
    """
    return find_entry(packages_folder().name)


def install_packages(progress: Progress = no_progress, *, wheelhouse: Path | None = None) -> Path:
    """Install what Python models need where that was not done before.

    Args:
        progress: Shows the work, where there is some.
        wheelhouse: As for `install_private_server`.

    Returns:
        A folder of packages, for `make_environment`.

    Raises:
        ServerError: It cannot be had; the message says why, and what to do.
        OSError: The cache cannot be written.
    """
    found = find_packages()
    if found is not None:
        return found
    check_python()
    source = wheelhouse_of(wheelhouse)
    with progress() as stages:

        def make(content: Path, other: Path) -> None:
            stages(f"installing {_WHAT} (NumPy, ONNX Runtime and others)", None)
            where = ["--target", str(content), "--no-warn-script-location"]
            run_pip(
                ["install", *where, *requirements()], what=_WHAT, wheelhouse=source, temporary=other
            )

        return make_entry(packages_folder().name, make, stages)


def download_packages(folder: Path, wheelhouse: Path | None = None) -> None:
    """Put the wheels that `install_packages` needs into a folder.

    Raises:
        ServerError: They cannot be had.
    """
    check_python()
    run_pip(
        ["download", "--dest", str(folder), *requirements()],
        what=_WHAT,
        wheelhouse=wheelhouse,
        temporary=folder,
    )


def check_python() -> None:
    """Check that there is a NumPy below 2 for this Python.

    Raises:
        ServerError: There is none.
    """
    if sys.version_info[:2] > _NEWEST_WITH_NUMPY_1:
        newest = ".".join(map(str, _NEWEST_WITH_NUMPY_1))
        raise ServerError(
            "the packaged server's Python backend needs NumPy below 2, which Python "
            f"{PYTHON_VERSION} does not have; install endcap with Python 3.10 to {newest}, or give "
            "each Python model an environment of its own with `endcap env pack`"
        )


def make_environment(folder: Path, packages: Path) -> Path:
    """Make a virtual environment of links to `packages` and to this endcap.

    Args:
        folder: A folder that does not exist.
        packages: What `install_packages` or `find_packages` has returned.

    Returns:
        The folder of its `python3`.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    site_packages = folder / "lib" / f"python{PYTHON_VERSION}" / "site-packages"
    for entry in [*_endcap_entries(), *packages.iterdir()]:
        link = site_packages / entry.name
        if not link.is_symlink():
            link.symlink_to(entry.absolute())
    return folder / "bin"


def _endcap_entries() -> Iterator[Path]:
    """Yield what an installation of endcap, be it an editable one, has in site-packages."""
    distribution = importlib.metadata.distribution("endcap")
    names = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    if not names:  # an installer that leaves no list
        yield from (Path(endcap.__path__[0]), *_metadata_folder(distribution))
    for name in sorted(names):
        yield Path(str(distribution.locate_file(name)))


def _metadata_folder(distribution: importlib.metadata.Distribution) -> list[Path]:
    folder = Path(str(distribution.locate_file("")))
    return list(folder.glob(f"endcap-{distribution.version}.dist-info"))
