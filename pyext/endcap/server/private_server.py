"""endcap's own Triton server, and the packages of its Python models.

pip installs both from an index or a folder of wheels into `$XDG_CACHE_HOME/endcap/server` or
`~/.cache/endcap/server`, each into a folder that is there completely or not at all. To install one
again, delete its folder. The server is the wheel of nvidia-pytriton: it is not installed into any
Python environment, so that its requirements (NumPy below 2, ranges of protobuf and gRPC) restrict
nobody.

The packages (NumPy below 2, and what Python models import) are installed once for each Python and
set of requirements. A launch makes a virtual environment of the running Python from links to them
and to this endcap, so that the models see neither the user's packages nor an older endcap.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

import endcap
from endcap._files import cache_folder as user_cache_folder
from endcap._python_process import PipError, environment_for_pip, pip_command, pip_errors
from endcap.errors import UnsupportedError
from endcap.server.python_stub import PYTHON_VERSION
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder

VERSION = "0.7.0"
# Of the files nvidia_pytriton-0.7.0-py3-none-manylinux_2_35_*.whl on PyPI.
SHA256 = {
    "aarch64": "f99e07ee56fe065337453956afba17d2673e02ec6a632c3de26ce6e7b32a0898",
    "x86_64": "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df",
}
EXECUTABLE = Path("pytriton") / "tritonserver" / "bin" / "tritonserver"

_SERVER = f"the Triton server (nvidia-pytriton {VERSION})"
_GLIBC = (2, 35)

# More packages for Python models, such as "opencv-python-headless torch==2.4".
PACKAGES_VARIABLE = "ENDCAP_SERVER_PACKAGES"

_PACKAGES = "what Python models need"
# With NumPy 2 the stubs of the packaged server return empty tensors. The other is what the shipped
# detector and classifier run on.
_NEEDED = ("numpy<2", "onnxruntime>=1.17")
_NEWEST_WITH_NUMPY_1 = (3, 12)

# A folder of wheels that is searched in place of every package index.
WHEELHOUSE_VARIABLE = "ENDCAP_WHEELHOUSE"

_OPTIONS = ("--no-input", "--disable-pip-version-check", "--only-binary", ":all:")


def show_nothing(message: str) -> None:
    """Ignore a message about progress."""


def cache_folder() -> Path:
    """Return the folder of what endcap installs.

    Raises:
        ServerError: This user has no place for a cache, or others can write to it.
    """
    try:
        return user_cache_folder("server")
    except UnsupportedError as error:
        raise ServerError(str(error)) from error


def private_server_folder() -> Path:
    """Return where the server is or would be.

    Raises:
        ServerError: As for `cache_folder`.
    """
    digest = SHA256.get(platform.machine(), "none")
    return cache_folder() / f"nvidia-pytriton-{VERSION}-{digest[:12]}"


def find_private_server() -> Path | None:
    """Return the folder of the server, laid out as site-packages; None where it is not installed.

    Raises:
        ServerError: The cache cannot be used, or the folder has no server.
    """
    folder = private_server_folder()
    if not folder.exists():
        return None
    if not (folder / EXECUTABLE).is_file():
        raise ServerError(f"{folder} has no {EXECUTABLE}; move the folder away, and try again")
    return folder


def why_no_private_server() -> str | None:
    """Return why the packaged server cannot run on this machine, None where it can."""
    machine, (library, version) = platform.machine(), platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    if machine in SHA256 and library == "glibc" and numbers >= _GLIBC:
        return None
    there = f"{machine} with {library or 'an unknown C library'} {version}".rstrip()
    return (
        f"the packaged Triton server runs on {' and '.join(SHA256)} Linux with glibc "
        f"{_GLIBC[0]}.{_GLIBC[1]} or newer, and this is {there}"
    )


def install_private_server(progress: Callable[[str], None] = show_nothing) -> Path:
    """Install the server where that was not done before; pip checks its SHA-256.

    Args:
        progress: Is called with a message when the installation begins.

    Returns:
        The folder of the server.

    Raises:
        ServerError: It cannot be installed; the message says why, and what to do.
        OSError: The cache cannot be written.
    """
    found = find_private_server()
    if found is not None:
        return found
    problem = why_no_private_server()
    if problem is not None:
        raise ServerError(
            f"{problem}; name a server of your own with --tritonserver PATH (`tritonserver=` in "
            "Python)"
        )

    def fill(content: Path, other: Path) -> None:
        progress(f"installing {_SERVER}, 53 MiB")
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in SHA256.values())
        wanted = other / "server.txt"
        wanted.write_text(f"nvidia-pytriton=={VERSION} {hashes}\n")
        _run_pip(["--no-deps", "--require-hashes", "-r", str(wanted)], _SERVER, content, other)

    return _install(private_server_folder(), fill, progress)


def _install(
    folder: Path, fill: Callable[[Path, Path], None], progress: Callable[[str], None]
) -> Path:
    """Make a folder of the cache, unless another process has made it meanwhile.

    `fill` fills its first folder, which becomes `folder`; the second is for temporary files.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder.parent / ".lock")
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        progress("waiting for another endcap that installs")
        held = lock.acquire()
    with held:
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
                content, other = Path(partial, "content"), Path(partial, "other")
                content.mkdir()
                other.mkdir()
                fill(content, other)
                content.rename(folder)
    return folder


def requirements(models: Iterable[ModelFolder] = ()) -> list[str]:
    """Return what is installed for Python models: endcap's own needs, NumPy below 2, and more.

    Args:
        models: The models to serve. One that runs a DALI pipeline of endcap's, and is not optional,
            gets the DALI of this Python, for which the operators are built.

    Raises:
        ServerError: ENDCAP_SERVER_PACKAGES holds something other than requirements.
    """
    from packaging.requirements import Requirement

    own = [Requirement(line) for line in importlib.metadata.requires("endcap") or ()]
    needed = [r for r in own if r.marker is None or r.marker.evaluate({"extra": ""})]
    runs_dali = any(model.runs_dali and not model.is_optional for model in models)
    dali = installed_dali() if runs_dali else ()
    return sorted({*(f"{r.name}{r.specifier}" for r in needed), *_NEEDED, *dali, *more_packages()})


def installed_dali() -> list[str]:
    """Return the packages of DALI in this Python, usually one, as requirements."""
    found = ((each.name.replace("_", "-"), each) for each in importlib.metadata.distributions())
    return sorted({f"{n}=={each.version}" for n, each in found if n.startswith("nvidia-dali-cuda")})


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


def packages_folder(models: Iterable[ModelFolder] = ()) -> Path:
    """Return where the packages for this Python, and these models, are or would be.

    Raises:
        ServerError: As for `requirements`.
    """
    identity = [platform.machine(), str(sys.implementation.cache_tag), *requirements(models)]
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()
    return cache_folder() / f"python-{PYTHON_VERSION}-{digest[:12]}"


def find_packages(models: Iterable[ModelFolder] = ()) -> Path | None:
    """Return the folder of the packages for these models, None where they are not installed.

    Raises:
        ServerError: As for `requirements` and `cache_folder`.
    """
    folder = packages_folder(models)
    return folder if folder.exists() else None


def install_packages(
    progress: Callable[[str], None] = show_nothing, *, models: Sequence[ModelFolder] = ()
) -> Path:
    """Install what Python models need where that was not done before.

    Args:
        progress: As for `install_private_server`.
        models: As for `requirements`.

    Returns:
        A folder of packages, for `make_environment`.

    Raises:
        ServerError: It cannot be installed; the message says why, and what to do.
        OSError: The cache cannot be written.
    """
    found = find_packages(models)
    if found is not None:
        return found
    check_python()

    def fill(content: Path, other: Path) -> None:
        progress(f"installing {_PACKAGES} (NumPy, ONNX Runtime and others)")
        _run_pip(requirements(models), _PACKAGES, content, other)

    return _install(packages_folder(models), fill, progress)


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
            "each Python model a separate environment with `endcap env pack`"
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


def _run_pip(wanted: Sequence[str], what: str, target: Path, temporary: Path) -> None:
    """Install wheels into a folder; `what` is for messages, `temporary` for pip's own files."""
    sources = []
    wheelhouse = os.environ.get(WHEELHOUSE_VARIABLE)
    if wheelhouse:
        if not Path(wheelhouse).is_dir():
            raise ServerError(f"{WHEELHOUSE_VARIABLE}={wheelhouse} is not a folder of wheels")
        sources = ["--no-index", "--find-links", os.path.abspath(wheelhouse)]
    where = ["install", "--target", str(target), "--no-warn-script-location"]
    try:
        command = [*pip_command(), *where, *_OPTIONS, *sources, *wanted]
        environment = {**environment_for_pip(), "TMPDIR": str(temporary)}
    except PipError as error:
        raise ServerError(f"{what} cannot be installed: {error}") from error
    # An interrupt ends pip, too: subprocess.run kills it.
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        advice = (
            f"put what is missing into {wheelhouse}"
            if wheelhouse
            else "check the network and `pip config list`, or name a folder of wheels with "
            f"{WHEELHOUSE_VARIABLE}=DIR"
        )
        raise ServerError(f"{what} cannot be installed ({pip_errors(done.stderr)}); {advice}")
