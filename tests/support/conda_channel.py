"""Makes a conda channel in a folder out of what is installed here: no network, no compiler.

A `.conda` file is a ZIP of two tar.zst, content and metadata: https://conda.org/learn/ceps/cep-0035
and https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
MICRO = ".".join(map(str, sys.version_info[:3]))
SITE_PACKAGES = f"lib/python{VERSION}/site-packages"
SUBDIR = "linux-64"
# Of the standard library; what needs a screen, tests, or this Python's own configuration.
_LEFT_OUT = {
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter",
    "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "EXTERNALLY-MANAGED",
    f"config-{VERSION}-x86_64-linux-gnu",
}  # fmt: skip
# Debian's Python looks for packages where only Debian puts them, except in a virtual environment.
_AS_ELSEWHERE = b"""
import site, sys
sys.real_prefix = sys.prefix
site.addsitedir(f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
"""
_ZSTD_BLOCK = 128 * 1024
# In a process that ends at once: threads of py-rattler outlive the call and crash Python's own end.
_INDEX = """
import asyncio, os, pathlib, sys
from rattler.index import index_fs
asyncio.run(index_fs(pathlib.Path(sys.argv[1]), write_shards=False, force=True))
os._exit(0)
"""


def write_channel(folder: Path, packages: Iterable[Mapping[str, object]] = ()) -> Path:
    """Make the folder a channel of packages, each the keyword arguments of `write_package`."""
    for subdir in (SUBDIR, "noarch"):
        (folder / subdir).mkdir(parents=True, exist_ok=True)
    for package in packages:
        write_package(folder / SUBDIR, **package)  # type: ignore[arg-type]
    subprocess.run([sys.executable, "-c", _INDEX, folder], check=True)
    return folder


def write_package(
    folder: Path,
    *,
    name: str,
    version: str,
    depends: Sequence[str] = (),
    files: Mapping[str, Path | bytes | str] | None = None,
) -> None:
    """Write one package.

    files: what lies at a path of the environment: a file, bytes, or a text that a link leads to.
    """
    content, paths = io.BytesIO(), []
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, source in sorted((files or {}).items()):
            paths.append(_add(archive, path, source))
    index = {
        "name": name, "version": version, "build": "0", "build_number": 0, "depends": list(depends),
        "subdir": SUBDIR, "arch": "x86_64", "platform": "linux",
    }  # fmt: skip
    info = io.BytesIO()
    with tarfile.open(fileobj=info, mode="w") as archive:
        _add(archive, "info/index.json", json.dumps(index).encode())
        listing = json.dumps({"paths": paths, "paths_version": 1})
        _add(archive, "info/paths.json", listing.encode())
    stem = f"{name}-{version}-0"
    with zipfile.ZipFile(folder / f"{stem}.conda", "w") as package:
        package.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        package.writestr(f"pkg-{stem}.tar.zst", _zstd(content.getbuffer()))
        package.writestr(f"info-{stem}.tar.zst", _zstd(info.getbuffer()))


def python_package(scratch: Path) -> dict[str, object]:
    """The running Python, without what a model needs none of; scratch is for stripped files."""
    files: dict[str, Path | bytes | str] = {
        f"bin/python{VERSION}": Path(sys.executable).resolve(),
        "bin/python3": f"python{VERSION}",
        "bin/python": f"python{VERSION}",
        f"lib/libpython{VERSION}.so.1.0": stripped(_libpython(), scratch),
        f"{SITE_PACKAGES}/README.txt": b"",
    }
    library = Path(sysconfig.get_path("stdlib"))
    for path in library.rglob("*"):
        relative = path.relative_to(library)
        if path.is_file() and not _LEFT_OUT & {*relative.parts}:
            files[f"lib/python{VERSION}/{relative}"] = path.resolve()
    if "posix_local" in sysconfig.get_scheme_names():
        files[f"lib/python{VERSION}/sitecustomize.py"] = _AS_ELSEWHERE
    return {"name": "python", "version": MICRO, "files": files}


def installed_package(name: str, *, depends: Sequence[str] = ("python",)) -> dict[str, object]:
    """A Python package that is installed here, without its tests."""
    distribution = importlib.metadata.distribution(name)
    files: dict[str, Path | bytes | str] = {}
    for path in distribution.files or ():
        inside = path.parts[0] != ".." and not {"tests", "__pycache__"} & {*path.parts}
        if inside and path.name not in ("RECORD", "direct_url.json"):
            files[f"{SITE_PACKAGES}/{path}"] = Path(str(path.locate())).resolve()
    return {"name": name, "version": distribution.version, "depends": depends, "files": files}


def _libpython() -> Path:
    name = f"libpython{VERSION}.so.1.0"
    folders = [sysconfig.get_config_var("LIBDIR"), f"{sys.base_prefix}/lib"]
    folders.append(f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}")
    return next(p for p in (Path(str(folder)) / name for folder in folders) if p.is_file())


def stripped(path: Path, scratch: Path) -> Path:
    """A library without what only debuggers read, where there is a program to strip it."""
    if shutil.which("strip") is None:
        return path
    target = scratch / hashlib.sha256(str(path).encode()).hexdigest()
    subprocess.run(["strip", "--strip-unneeded", "-o", target, path], check=True)
    return target


def _add(archive: tarfile.TarFile, path: str, source: Path | bytes | str) -> dict[str, object]:
    """Add one file to a package; return its entry in paths.json."""
    member = tarfile.TarInfo(path)
    if isinstance(source, str):
        member.type, member.linkname = tarfile.SYMTYPE, source
        archive.addfile(member)
        return {"_path": path, "path_type": "softlink"}
    data = source.read_bytes() if isinstance(source, Path) else source
    executable = isinstance(source, Path) and source.stat().st_mode & 0o100
    member.size, member.mode = len(data), 0o755 if executable else 0o644
    archive.addfile(member, io.BytesIO(data))
    digest = hashlib.sha256(data).hexdigest()
    return {
        "_path": path, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(data)
    }  # fmt: skip


def _zstd(data: memoryview) -> bytes:
    """The data as one Zstandard frame of raw blocks (RFC 8878, 3.1.1): packed, not compressed."""
    window = b"\x00\x58"  # no sizes, no checksum; a window of 2 MiB
    blocks = [data[start : start + _ZSTD_BLOCK] for start in range(0, len(data), _ZSTD_BLOCK)]
    frame = [b"\x28\xb5\x2f\xfd", window]
    for number, block in enumerate(blocks):
        header = (number == len(blocks) - 1) | len(block) << 3
        frame += [header.to_bytes(3, "little"), bytes(block)]
    return b"".join(frame)
