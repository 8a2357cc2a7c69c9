"""Contents of an image's root file system: an account of its size, and the check of its bill.

`account` gives each file to one component; the sizes are those of the files, as layers of an
image hold them, and hard links count once. `check_bill` compares the bill of materials with
dpkg's database and with the metadata of the Python packages. Needs cyclonedx-python-lib.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

_SPECIFICATION = SchemaVersion.V1_6
_PACKAGES = "opt/endcap/lib/python3.11/site-packages"
# The first pattern that a path fits gives the component; Debian's packages come after them.
_COMPONENTS = (
    (r"opt/server/pytriton/tritonserver/bin/", "Triton: the program tritonserver"),
    (r"opt/server/nvidia_pytriton\.libs/libtritonserver", "Triton: libtritonserver"),
    (r"opt/server/nvidia_pytriton\.libs/libicu", "Triton: ICU, which its libxml2 needs"),
    (r"opt/server/nvidia_pytriton\.libs/", "Triton: other libraries that it needs"),
    (r"opt/server/.*python", "Triton: Python backend and stubs"),
    (r"opt/server/", "Triton: the rest"),
    (rf"{_PACKAGES}/endcap/backends/", "endcap: Triton backends"),
    (rf"{_PACKAGES}/endcap/model_repository/", "endcap: the shipped model repository"),
    (rf"{_PACKAGES}/endcap/.*\.so$", "endcap: core and C library"),
    (rf"{_PACKAGES}/endcap[/-]", "endcap: Python modules"),
    (rf"{_PACKAGES}/onnxruntime[/-]", "ONNX Runtime"),
    (rf"{_PACKAGES}/numpy\.libs/", "NumPy: OpenBLAS and its Fortran runtime"),
    (rf"{_PACKAGES}/numpy[/-]", "NumPy"),
    (rf"{_PACKAGES}/(PIL|pillow)", "Pillow"),
    (r"opt/endcap/", "other Python packages"),
    (r"usr/share/doc/endcap/", "bill of materials"),
    (r"models/", "models"),
)
_PYTHON = re.compile(r"(lib)?python3")
_SYSTEM_PYTHON = "Debian: Python"
_SYSTEM = "Debian: other packages"
_GENERATED = "Debian: what its packages have made (databases, caches, compiled Python)"


def account(root: Path) -> dict[str, int]:
    """Return the bytes of each component, largest first; their sum is that of all files."""
    owners = _debian_owners(root)
    seen: set[tuple[int, int]] = set()
    sizes: Counter[str] = Counter()
    for path, status in _files(root):
        identity = (status.st_dev, status.st_ino)
        if identity not in seen:
            seen.add(identity)
            sizes[_component(path, owners)] += status.st_size
    return dict(sizes.most_common())


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(root).as_posix(), status


def _component(path: str, owners: dict[str, str]) -> str:
    for pattern, component in _COMPONENTS:
        if re.match(pattern, path):
            return component
    owner = owners.get(path)
    if owner is None:
        return _GENERATED
    return _SYSTEM_PYTHON if _PYTHON.match(owner) else _SYSTEM


def _debian_owners(root: Path) -> dict[str, str]:
    """Return the packages by the files that they own, where these really are."""
    owners = {}
    for listing in (root / "var/lib/dpkg/info").glob("*.list"):
        for line in listing.read_text(encoding="utf-8").splitlines()[1:]:  # the first is the root
            path = root / line.lstrip("/")
            # /lib and others are links, in some packages' lists before what they lead to.
            real = _inside(root, path.parent) / path.name
            owners[real.relative_to(root).as_posix()] = listing.name.partition(":")[0]
    return owners


def _inside(root: Path, folder: Path) -> Path:
    """Return a folder with its first link, such as /lib, resolved in the root file system."""
    parts = folder.relative_to(root).parts
    if parts and (root / parts[0]).is_symlink():
        return root / os.readlink(root / parts[0]).lstrip("/") / Path(*parts[1:])
    return folder


def check_bill(root: Path, bill_path: str, folders: list[str]) -> Iterator[str]:
    """Yield what is wrong with the bill of materials of an image.

    It must follow the schema of CycloneDX strictly and list the installed packages of Debian and
    the Python packages, each with its version, and no others.

    Args:
        root: Root file system of the image.
        bill_path: Of the bill in it.
        folders: Folders of Python packages in it.
    """
    path = root / bill_path.lstrip("/")
    if not path.is_file():
        yield f"the image has no {bill_path}"
        return
    text = path.read_text(encoding="utf-8")
    fault = JsonStrictValidator(_SPECIFICATION).validate_str(text)
    if fault is not None:
        yield f"{bill_path} does not follow {_SPECIFICATION.to_version()} of CycloneDX: {fault}"
        return
    components = json.loads(text)["components"]
    listed = {_package(each) for each in components if each.get("purl")}
    installed = {*_debian_packages(root), *_python_packages(root, folders)}
    for kind, name, version in sorted(installed - listed):
        yield f"{bill_path} lacks {kind} package {name} {version}"
    for kind, name, version in sorted(listed - installed):
        yield f"{bill_path} lists {kind} package {name} {version}, which the image does not have"
    inner = {part["name"] for each in components for part in each.get("components", ())}
    for library in ("libjpeg-turbo", "libpng", "libwebp", "giflib", "highway"):
        if library not in inner:
            yield f"{bill_path} does not say that endcap holds {library}"


def _package(component: dict[str, Any]) -> tuple[str, str, str]:
    match = re.match(r"pkg:(\w+)/(?:debian/|ubuntu/)?([^@]+)@([^?]+)", component["purl"])
    if match is None:
        return "unknown", component["purl"], ""
    return match[1], unquote(match[2]), unquote(match[3])


def _debian_packages(root: Path) -> Iterator[tuple[str, str, str]]:
    command = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show"]
    command += ["--showformat=${db:Status-Status} ${Package} ${Version}\n"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        status, name, version = line.split()
        if status == "installed":
            yield "deb", name, version


def _python_packages(root: Path, folders: list[str]) -> Iterator[tuple[str, str, str]]:
    for folder in folders:
        for distribution in metadata.distributions(path=[str(root / folder.lstrip("/"))]):
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
            yield "pypi", name, distribution.version
