"""Software bill of materials of a wheel: CycloneDX JSON in .dist-info/sboms/, as PEP 770 has it.

`write_sbom` adds it to a wheel that a build tree has just given; the versions of what is inside the
shared objects are those that CMake found for that tree. `check_sbom` compares it with the files of
a wheel. Needs cyclonedx-python-lib.
"""

from __future__ import annotations

import base64
import csv
import ctypes
import hashlib
import json
import platform
import re
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

SBOM_NAME = "sboms/endcap.cdx.json"  # below the .dist-info folder
_SPECIFICATION = SchemaVersion.V1_6
_NAMESPACE = uuid.UUID("6f6ab0d2-4a5b-5c5e-9d6f-0f3f8a0f1c55")  # of the serial numbers
IMAGE_LIBRARIES = ("jpeg", "png", "webp", "gif")  # as CMake's variables name them
_CPLUSPLUS = ("libstdc++", "libgcc")
# What is inside a native file, by a pattern of its path in the wheel.
_CONTENTS = {
    r"libendcap_jpeg\.so$": ("libjpeg-turbo",),
    r"libendcap_png\.so$": ("libpng",),
    r"libendcap_webp\.so$": ("libwebp",),
    r"libendcap_gif\.so$": ("giflib",),
    r"_core\.[^/]+\.so$": ("highway", "pybind11", *_CPLUSPLUS),
    r"libendcap_c\.so$": ("highway", *_CPLUSPLUS),
    r"libtriton_endcap_[a-z]+\.so$": ("highway", "nlohmann-json", *_CPLUSPLUS),
    r"triton_python_backend_stub$": ("nlohmann-json", *_CPLUSPLUS),
    r"libendcap_cuda\.so$": ("cuda-runtime", "cub", *_CPLUSPLUS),
}


class SbomError(Exception):
    """The bill of materials cannot be written; the message says why."""


@dataclass(frozen=True)
class Library:
    """A library of others inside a native file.

    Attributes:
        name: Its name in the bill.
        version: Of the upstream release.
        license: SPDX expression, or the name of a licence that SPDX does not know.
        linkage: "bundled" for a copied shared object, "static", or "headers".
        file: What it was found by: the library, or its principal header.
        purl: Of the package that owns the file, else a generic one.
    """

    name: str
    version: str
    license: str
    linkage: str
    file: Path
    purl: str

    def component(self) -> dict[str, object]:
        """Return the component of the bill."""
        spdx = "NVIDIA" not in self.license
        license_ = {"expression": self.license} if spdx else {"license": {"name": self.license}}
        component: dict[str, object] = {
            "type": "library",
            "bom-ref": self.name,
            "name": self.name,
            "version": self.version,
            "licenses": [license_],
            "purl": self.purl,
            "properties": [{"name": "endcap:linkage", "value": self.linkage}],
        }
        if self.linkage != "headers":
            component["hashes"] = [_hash(self.file.resolve().read_bytes())]
        return component


def native_files(names: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the native files of a wheel with the names of the libraries inside each.

    Raises:
        SbomError: Nothing is known of a shared object.
    """
    found = {}
    for name in sorted(names):
        for pattern, contents in _CONTENTS.items():
            if re.search(rf"(^|/){pattern}", name):
                found[name] = contents
                break
        else:
            if re.search(r"\.so(\.\d+)*$", name):
                raise SbomError(
                    f"it is not known what {name} holds; expected is one of the files of "
                    "_CONTENTS in scripts/sbom.py: add it there"
                )
    return found


def find_libraries(tree: Path, *, cuda: bool) -> dict[str, Library]:
    """Return the libraries that a build tree has used, with their versions, by name.

    Args:
        tree: The build tree, of which CMakeCache.txt is read.
        cuda: Whether it has GPU code.

    Raises:
        SbomError: A library or its version is not found.
    """
    cache = _read_cache(tree)
    image_files = {
        name: Path(cache[f"ENDCAP_{name}_LIBRARY"]).resolve() for name in IMAGE_LIBRARIES
    }
    highway = Path(cache["ENDCAP_HIGHWAY_INCLUDE_DIR"], "hwy", "highway.h")
    json_config = Path(cache["nlohmann_json_DIR"], "nlohmann_jsonConfigVersion.cmake")
    pybind11 = Path(cache["pybind11_DIR"], "pybind11ConfigVersion.cmake")
    gcc_version = _run(cache["CMAKE_CXX_COMPILER"], "-dumpfullversion")
    package_version = r'set\(PACKAGE_VERSION "([\d.]+)"'
    gcc_license = "GPL-3.0-or-later WITH GCC-exception-3.1"
    found = [
        _library("libjpeg-turbo", _jpeg_version(cache), "IJG AND BSD-3-Clause AND Zlib", "bundled",
                 image_files["jpeg"]),
        _library("libpng", _png_version(cache), "libpng-2.0", "bundled", image_files["png"]),
        _library("libwebp", _webp_version(image_files["webp"]), "BSD-3-Clause", "bundled",
                 image_files["webp"]),
        _library("giflib", _gif_version(cache), "MIT AND ISC", "bundled", image_files["gif"]),
        _library("highway", _highway_version(highway), "Apache-2.0", "headers",
                 highway),
        _library("nlohmann-json", _read_version(json_config, package_version), "MIT", "headers",
                 json_config),
        _library("pybind11", _read_version(pybind11, package_version), "BSD-3-Clause", "headers",
                 pybind11),
        *(_library(name, gcc_version, gcc_license, "static",
                   Path(_run(cache["CMAKE_CXX_COMPILER"], f"-print-file-name={name}.a")))
          for name in _CPLUSPLUS),
    ]  # fmt: skip
    if cuda:
        found += _cuda_libraries(Path(cache["ENDCAP_CUDART"]))
    return {library.name: library for library in found}


def write_sbom(wheel: Path, tree: Path, *, cuda: bool, epoch: int) -> None:
    """Add the bill of materials to a wheel, whose RECORD is to be written anew afterwards.

    Args:
        wheel: The wheel; its native files must be the final ones.
        tree: The build tree that it comes from.
        cuda: Whether it has GPU code.
        epoch: Time of the bill, in seconds since 1970.

    Raises:
        SbomError: A library or its version is not found.
    """
    libraries = find_libraries(tree, cuda=cuda)
    with zipfile.ZipFile(wheel, "a") as archive:
        names = set(archive.namelist())
        natives = native_files(names)
        hashes = {name: _hash(archive.read(name)) for name in natives}
        bill = _compose(wheel, natives, hashes, libraries, epoch)
        target = f"{_dist_info(names)}/{SBOM_NAME}"
        archive.writestr(target, json.dumps(bill, indent=1, sort_keys=True) + "\n")


def check_sbom(unpacked: Path, names: set[str]) -> Iterator[str]:
    """Yield what is wrong with the bill of materials of an unpacked wheel.

    It must follow the schema of CycloneDX, name every native file with its hash and no other file,
    and have a version, a licence and a package URL for each library.

    Args:
        unpacked: Folder with the wheel's files.
        names: Paths of the files in it.
    """
    path = unpacked / _dist_info(names) / SBOM_NAME
    if not path.is_file():
        return  # check_wheel.check_files reports it
    text = path.read_text(encoding="utf-8")
    fault = JsonStrictValidator(_SPECIFICATION).validate_str(text)
    if fault is not None:
        yield f"{SBOM_NAME} does not follow {_SPECIFICATION.to_version()} of CycloneDX: {fault}"
        return
    bill = json.loads(text)
    components = {component["bom-ref"]: component for component in bill["components"]}
    files = {c["name"]: c["hashes"] for c in components.values() if c["type"] == "file"}
    try:
        natives = native_files(names)
    except SbomError as error:
        yield str(error)
        return
    for name in sorted({*natives} ^ {*files}):
        where = "the wheel" if name in files else SBOM_NAME
        yield f"{name} is missing in {where}"
    used = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    for name in sorted({*natives} & {*files}):
        if files[name] != [_hash((unpacked / name).read_bytes())]:
            yield f"{SBOM_NAME} has another hash of {name}"
        for library in natives[name]:
            if library not in used.get(name, ()) or library not in components:
                yield f"{SBOM_NAME} does not say that {name} holds {library}"
    for reference, component in components.items():
        missing = {"version", "licenses", "purl"} - component.keys()
        if component["type"] == "library" and missing:
            yield f"{SBOM_NAME} has no {', '.join(sorted(missing))} of {reference}"


def check_record(unpacked: Path, names: set[str]) -> Iterator[str]:
    """Yield the files whose hash in RECORD is not that of the file, or that it does not name."""
    record = f"{_dist_info(names)}/RECORD"
    if record not in names:
        return  # as above
    rows = list(csv.reader((unpacked / record).read_text(encoding="utf-8").splitlines()))
    recorded = {row[0]: row[1] for row in rows}
    for name in sorted(names ^ recorded.keys()):
        yield f"{name} is in {'the wheel' if name in names else 'RECORD'} only"
    for name in sorted((names & recorded.keys()) - {record}):
        digest = hashlib.sha256((unpacked / name).read_bytes()).digest()
        written = recorded[name].removeprefix("sha256=")
        if written != base64.urlsafe_b64encode(digest).decode().rstrip("="):
            yield f"RECORD has another hash of {name}"


def _compose(
    wheel: Path,
    natives: dict[str, tuple[str, ...]],
    hashes: dict[str, dict[str, str]],
    libraries: dict[str, Library],
    epoch: int,
) -> dict[str, object]:
    name, version = wheel.name.split("-")[:2]
    inside = sorted({library for contents in natives.values() for library in contents})
    purl = f"pkg:pypi/{name}@{version}"
    files = [
        {"type": "file", "bom-ref": file, "name": file, "hashes": [hashes[file]]}
        for file in natives
    ]
    dependencies = [
        {"ref": purl, "dependsOn": [*natives]},
        *({"ref": file, "dependsOn": sorted(contents)} for file, contents in natives.items()),
        *({"ref": library} for library in inside),
    ]
    content = json.dumps([files, dependencies], sort_keys=True)
    built = datetime.fromtimestamp(epoch, tz=timezone.utc)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPECIFICATION.to_version(),
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        "metadata": {
            "timestamp": built.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [*files, *(libraries[library].component() for library in inside)],
        "dependencies": dependencies,
    }


def _dist_info(names: set[str]) -> str:
    return next((name.split("/")[0] for name in sorted(names) if ".dist-info/" in name), "")


def _hash(content: bytes) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}


def _run(*command: str) -> str:
    done = subprocess.run([*command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _read_cache(tree: Path) -> dict[str, str]:
    """Return the variables of a build tree."""
    lines = (tree / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([^#/:][^:]*):[A-Z]+=(.*)", line) for line in lines)
    return {each[1]: each[2] for each in found if each}


def _read_version(file: Path, pattern: str) -> str:
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(pattern, text)
    if found is None:
        raise SbomError(f"{file} does not tell the version of what it belongs to")
    return found[1]


def _jpeg_version(cache: dict[str, str]) -> str:
    folder = Path(cache["ENDCAP_jpeg_INCLUDE_DIR"])
    for file in (folder / "jconfig.h", *sorted(folder.glob("*-linux-gnu/jconfig.h"))):
        if file.is_file():
            return _read_version(file, r"define LIBJPEG_TURBO_VERSION\s+([\d.]+)")
    raise SbomError(f"there is no jconfig.h in {folder}, which tells libjpeg-turbo's version")


def _png_version(cache: dict[str, str]) -> str:
    header = Path(cache["ENDCAP_png_INCLUDE_DIR"], "png.h")
    return _read_version(header, r'define PNG_LIBPNG_VER_STRING "([\d.]+)"')


def _webp_version(library: Path) -> str:
    package = library.parent / "pkgconfig" / "libwebp.pc"
    if package.is_file():  # a library for another machine cannot be asked
        return _read_version(package, r"Version: ([\d.]+)")
    try:
        number = ctypes.CDLL(str(library)).WebPGetDecoderVersion()
    except (OSError, AttributeError) as error:
        raise SbomError(f"{library} does not tell its version: {error}") from error
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _gif_version(cache: dict[str, str]) -> str:
    header = Path(cache["ENDCAP_gif_INCLUDE_DIR"], "gif_lib.h")
    parts = ("MAJOR", "MINOR", "RELEASE")
    return ".".join(_read_version(header, rf"define GIFLIB_{part} (\d+)") for part in parts)


def _highway_version(header: Path) -> str:
    parts = ("MAJOR", "MINOR", "PATCH")
    return ".".join(_read_version(header, rf"define HWY_{part} (\d+)") for part in parts)


def _cuda_libraries(archive: Path) -> list[Library]:
    """Return the CUDA runtime and CUB, by the static library of the former."""
    root = archive.resolve().parents[1]
    headers = [root / "include", *sorted(root.glob("targets/*/include"))]
    runtime = next((h for h in headers if (h / "cuda_runtime_api.h").is_file()), root)
    number = int(_read_version(runtime / "cuda_runtime_api.h", r"define CUDART_VERSION\s+(\d+)"))
    candidates = [h / sub / "cub" / "version.cuh" for h in headers for sub in ("cccl", ".")]
    cub = next((c for c in candidates if c.is_file()), candidates[0])
    cub_number = int(_read_version(cub, r"define CUB_VERSION\s+(\d+)"))
    cub_version = f"{cub_number // 100000}.{cub_number // 100 % 1000}.{cub_number % 100}"
    return [
        _library("cuda-runtime", f"{number // 1000}.{number % 1000 // 10}",
                 "NVIDIA CUDA Toolkit End User License Agreement", "static", archive),
        _library("cub", cub_version, "BSD-3-Clause", "headers", cub),
    ]  # fmt: skip


def _library(name: str, version: str, license_: str, linkage: str, file: Path) -> Library:
    if not file.is_file():
        raise SbomError(f"{name} was not found at {file}, where the build tree has it from")
    purl = _python_purl(file) or _debian_purl(file) or f"pkg:generic/{name}@{version}"
    return Library(name, version, license_, linkage, file, purl)


def _python_purl(file: Path) -> str | None:
    """Return the package URL of the installed Python distribution that has brought a file."""
    for parent in file.parents:
        if parent.name in ("site-packages", "dist-packages"):
            relative = file.relative_to(parent).as_posix()
            for distribution in metadata.distributions(path=[str(parent)]):
                if any(each.as_posix() == relative for each in distribution.files or ()):
                    project = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
                    return f"pkg:pypi/{project}@{distribution.version}"
    return None


def _debian_purl(file: Path) -> str | None:
    """Return the package URL of the Debian or Ubuntu package that owns a file."""
    try:
        owner = _run("dpkg-query", "--search", str(file.resolve())).split(": ")[0]
        asked = ("dpkg-query", "--show", "--showformat=${Package} ${Version} ${Architecture}")
        package, version, architecture = _run(*asked, owner).split()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None  # another system, or a file that no package owns
    system = platform.freedesktop_os_release()
    distribution = f"{system['ID']}-{system.get('VERSION_ID', 'unstable')}"
    return (
        f"pkg:deb/{system['ID']}/{quote(package, safe='')}@{quote(version, safe='')}"
        f"?arch={architecture}&distro={distribution}"
    )
