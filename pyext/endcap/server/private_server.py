"""endcap's own Triton server, and the packages of its Python models.

pip takes both from an index or a folder of wheels, and they are installed into the cache. The
server is the wheel of nvidia-pytriton, unpacked: it is not installed into any Python environment,
so that its requirements (NumPy below 2, ranges of protobuf and gRPC) restrict nobody, and of its
files only the server's are kept.

The packages (NumPy below 2, and what Python models import) are installed once for each Python and
set of requirements. A launch makes a virtual environment of the running Python from links to them
and to this endcap, so that the models see neither the user's packages nor an older endcap.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import endcap
from endcap._python_process import PipError, environment_for_pip, pip_command, pip_errors
from endcap._system.scratch import scratch_folder
from endcap._system.stages import Progress, Stages, no_progress
from endcap._system.written_file import whole_file
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.server.cache import cache_folder, find_entry, make_entry
from endcap.server.leftovers import DOWNLOAD_PURPOSE
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
_KEPT = ("pytriton/tritonserver/", "nvidia_pytriton.libs/", f"nvidia_pytriton-{VERSION}.dist-info/")
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

# Only the most verbose log says that an index was not reached.
_OPTIONS = ("-vv", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:")
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ConnectionError|ProxyError|"
    r"connection (?:error|refused)|failed to (?:resolve|establish)|Max retries exceeded|timed out|"
    r"network is unreachable",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")


def private_server_folder() -> Path:
    """Return where the server is or would be."""
    digest = SHA256.get(platform.machine(), "none")
    return cache_folder() / f"nvidia-pytriton-{VERSION}-{digest[:12]}"


def find_private_server() -> Path | None:
    """Return the folder of the server, laid out as site-packages; None where it is not installed.

    Raises:
        ServerError: The cache is not safe, or holds something else in its place.
    """
    return find_entry(private_server_folder().name)


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


def install_private_server(
    progress: Progress = no_progress, *, wheelhouse: Path | None = None
) -> Path:
    """Download and unpack the server where that was not done before.

    Args:
        progress: Shows the work, where there is some.
        wheelhouse: A folder of wheels to take it from; else the one that ENDCAP_WHEELHOUSE names,
            else pip's package index.

    Returns:
        The folder of the server.

    Raises:
        ServerError: It cannot be had; the message says why, and what to do.
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
    source = wheelhouse_of(wheelhouse)
    with progress() as stages:

        def make(content: Path, other: Path) -> None:
            what = f"taking {_SERVER} from {source}" if source else f"downloading {_SERVER}, 53 MiB"
            stages(what, None)
            _unpack(download_server(other / "wheel", source), content, stages)

        return make_entry(private_server_folder().name, make, stages)


def download_server(folder: Path, wheelhouse: Path | None = None) -> Path:
    """Put the server's wheel into a folder, its SHA-256 checked by pip; return the file.

    Raises:
        ServerError: It cannot be had, or the folder has another file of its name.
    """
    with _download_folder() as scratch:
        requirements = scratch / "server.txt"
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in SHA256.values())
        requirements.write_text(f"nvidia-pytriton=={VERSION} {hashes}\n")
        downloaded = scratch / "wheels"
        command = ["download", "--no-deps", "--require-hashes", "--dest", str(downloaded)]
        run_pip(
            [*command, "-r", str(requirements)],
            what=_SERVER,
            wheelhouse=wheelhouse,
            temporary=scratch,
        )
        (wheel,) = _collect(downloaded, folder)
    return wheel


@contextlib.contextmanager
def _download_folder() -> Iterator[Path]:
    try:
        with scratch_folder(DOWNLOAD_PURPOSE) as scratch:
            yield scratch
    except UnsupportedError as error:
        raise ServerError(str(error)) from error


def _collect(downloaded: Path, folder: Path) -> list[Path]:
    """Copy wheels into a folder and return the copies; other files there are left as they are.

    Raises:
        ServerError: A file, or link, of a wheel's name has another content.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copies = []
    for wheel in sorted(downloaded.glob("*.whl")):
        copy = folder / wheel.name
        if os.path.lexists(copy):
            if copy.is_symlink() or not filecmp.cmp(wheel, copy, shallow=False):
                raise ServerError(
                    f"{copy} is there already, and is not the file of that name that pip has; move "
                    "it away, or give another folder"
                )
        else:
            try:
                with whole_file(copy, follow_links=False) as target, wheel.open("rb") as source:
                    shutil.copyfileobj(source, target)
            except InvalidArgumentError as error:
                raise ServerError(str(error)) from error
        copies.append(copy)
    return copies


def _unpack(wheel: Path, folder: Path, stages: Stages) -> None:
    with zipfile.ZipFile(wheel) as archive:
        kept = [
            member
            for member in archive.infolist()
            if member.filename.startswith(_KEPT) and not member.is_dir()
        ]
        done = stages("unpacking the Triton server", len(kept))
        for member in kept:
            if ".." in PurePosixPath(member.filename).parts:
                raise ServerError(f"{wheel.name} has a file outside of it, {member.filename}")
            unpacked = Path(archive.extract(member, folder))
            # The archive has the modes of the files, which extracting leaves out.
            unpacked.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)
            done()


def requirements(models: Iterable[ModelFolder] = ()) -> list[str]:
    """Return what is installed for Python models: endcap's own needs, NumPy below 2, and more.

    Args:
        models: The models to serve. One that runs a DALI pipeline of endcap's, and is not optional,
            gets the DALI of this Python, for which the operators are built.

    Raises:
        ServerError: ENDCAP_SERVER_PACKAGES holds something that is no requirement.
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
        ServerError: The cache is not safe, or holds something else in its place.
    """
    return find_entry(packages_folder(models).name)


def install_packages(
    progress: Progress = no_progress,
    *,
    models: Sequence[ModelFolder] = (),
    wheelhouse: Path | None = None,
) -> Path:
    """Install what Python models need where that was not done before.

    Args:
        progress: Shows the work, where there is some.
        models: As for `requirements`.
        wheelhouse: As for `install_private_server`.

    Returns:
        A folder of packages, for `make_environment`.

    Raises:
        ServerError: It cannot be had; the message says why, and what to do.
        OSError: The cache cannot be written.
    """
    found = find_packages(models)
    if found is not None:
        return found
    check_python()
    source = wheelhouse_of(wheelhouse)
    with progress() as stages:

        def make(content: Path, other: Path) -> None:
            stages(f"installing {_PACKAGES} (NumPy, ONNX Runtime and others)", None)
            where = ["--target", str(content), "--no-warn-script-location"]
            run_pip(
                ["install", *where, *requirements(models)],
                what=_PACKAGES,
                wheelhouse=source,
                temporary=other,
            )

        return make_entry(packages_folder(models).name, make, stages)


def download_packages(folder: Path, wheelhouse: Path | None = None) -> None:
    """Put the wheels that `install_packages` needs into a folder.

    Raises:
        ServerError: They cannot be had.
    """
    check_python()
    with _download_folder() as scratch:
        downloaded = scratch / "wheels"
        run_pip(
            ["download", "--dest", str(downloaded), *requirements()],
            what=_PACKAGES,
            wheelhouse=wheelhouse,
            temporary=scratch,
        )
        _collect(downloaded, folder)


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


def wheelhouse_of(given: Path | None) -> Path | None:
    """Return the folder of wheels to search: the given one, or what the environment names.

    Raises:
        ServerError: It is no folder.
    """
    named = os.environ.get(WHEELHOUSE_VARIABLE)
    folder = given or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise ServerError(
            f"the wheelhouse {folder} is not a folder; `endcap server download {folder}` fills one "
            "on a machine with a network"
        )
    return folder


def run_pip(
    arguments: Sequence[str], *, what: str, wheelhouse: Path | None, temporary: Path
) -> None:
    """Run pip on wheels alone: no package is built.

    Args:
        arguments: The command and its own options.
        what: What is to be had, for messages.
        wheelhouse: A folder to search in place of package indexes.
        temporary: A folder for pip's own files, on the disk of what it writes.

    Raises:
        ServerError: pip is missing or fails; the message says why, and what to do.
        OSError: The disk of `temporary` is full.
    """
    sources = ["--no-index", "--find-links", str(wheelhouse.absolute())] if wheelhouse else []
    try:
        command = [*pip_command(), *arguments, *_OPTIONS, *sources]
        environment = {**environment_for_pip(), "TMPDIR": str(temporary.absolute())}
    except PipError as error:
        raise ServerError(f"{what} cannot be installed: {error}") from error
    # An interrupt ends pip, too: subprocess.run kills it.
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        if _NO_SPACE.search(finished.stderr):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary))
        raise _failure(what, finished, wheelhouse)


def _failure(
    what: str, finished: subprocess.CompletedProcess[str], wheelhouse: Path | None
) -> ServerError:
    stderr = finished.stderr
    reason = pip_errors(stderr)
    if "DO NOT MATCH THE HASHES" in stderr:
        advice = (
            "the file is not the one that this version of endcap knows; look at the index or the "
            "wheelhouse that pip takes it from"
        )
    elif wheelhouse is not None:
        advice = (
            f"put what is missing into {wheelhouse}: `endcap server download DIR` fetches all of "
            "it on a machine with a network and the same Python"
        )
    elif "(from versions: none)" in stderr and _NO_NETWORK.search(finished.stdout + stderr):
        reason = "pip reaches no package index"
        advice = (
            "connect this machine to one, or fill a folder by `endcap server download DIR` on "
            f"another machine with the same Python, and name it with {WHEELHOUSE_VARIABLE}=DIR"
        )
    else:
        advice = (
            f"`pip config list` shows where pip looks; {WHEELHOUSE_VARIABLE}=DIR names a folder "
            "of wheels instead"
        )
    return ServerError(f"{what} cannot be installed ({reason}); {advice}")
