"""endcap's own Triton server: the wheel of nvidia-pytriton, unpacked in the cache.

The wheel is not installed into any Python environment, so that what it asks for (NumPy below 2,
ranges of protobuf and gRPC) bounds nobody. Of its files only the server's are kept.
"""

from __future__ import annotations

import platform
import zipfile
from pathlib import Path, PurePosixPath

from endcap._system.stages import Progress, Stages, no_progress
from endcap.server.cache import cache_folder, find_entry, make_entry
from endcap.server.downloads import run_pip, wheelhouse_of
from endcap.triton.errors import ServerError

VERSION = "0.7.0"
# Of the files nvidia_pytriton-0.7.0-py3-none-manylinux_2_35_*.whl on PyPI.
SHA256 = {
    "aarch64": "f99e07ee56fe065337453956afba17d2673e02ec6a632c3de26ce6e7b32a0898",
    "x86_64": "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df",
}
EXECUTABLE = Path("pytriton") / "tritonserver" / "bin" / "tritonserver"

_WHAT = f"the Triton server (nvidia-pytriton {VERSION})"
_KEPT = ("pytriton/tritonserver/", "nvidia_pytriton.libs/", f"nvidia_pytriton-{VERSION}.dist-info/")
_GLIBC = (2, 35)


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
        raise ServerError(f"{problem}; name a server of your own with --tritonserver PATH")
    source = wheelhouse_of(wheelhouse)
    with progress() as stages:

        def make(content: Path, other: Path) -> None:
            what = f"taking {_WHAT} from {source}" if source else f"downloading {_WHAT}, 53 MiB"
            stages(what, None)
            _unpack(download_server(other / "wheel", source), content, stages)

        return make_entry(private_server_folder().name, make, stages)


def download_server(folder: Path, wheelhouse: Path | None = None) -> Path:
    """Put the server's wheel into a folder, its SHA-256 checked by pip; return the file.

    Raises:
        ServerError: It cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / "server.txt"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in SHA256.values())
    requirements.write_text(f"nvidia-pytriton=={VERSION} {hashes}\n")
    command = ["download", "--no-deps", "--require-hashes", "--dest", str(folder)]
    try:
        run_pip(
            [*command, "-r", str(requirements)], what=_WHAT, wheelhouse=wheelhouse, temporary=folder
        )
    finally:
        requirements.unlink()
    (wheel,) = folder.glob(f"nvidia_pytriton-{VERSION}-*.whl")
    return wheel


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
