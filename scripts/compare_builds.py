"""Builds source archive and wheel twice and compares them byte by byte.

    python scripts/compare_builds.py WORK [--cuda {ON,OFF}] [--architectures LIST]

The two builds lie in different folders below WORK and differ in time zone, language, file mode mask
and number of compiler processes. Prints each difference and exits with 1, or prints the hashes and
exits with 0. Runs in an environment with the dependency group `wheel`, as scripts/build_wheel.py.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

SCRIPTS = Path(__file__).resolve().parent
# Each build's folder, variables and file mode mask.
BUILDS = (
    ("first", {"TZ": "UTC", "LC_ALL": "C.UTF-8"}, 0o022),
    (
        "second/in_a_longer/path",
        {"TZ": "Asia/Tokyo", "LC_ALL": "C", "CMAKE_BUILD_PARALLEL_LEVEL": "3"},
        0o077,
    ),
)


def compare_files(first: Path, second: Path) -> Iterator[str]:
    """Yield the differences of two wheels or two source archives."""
    if first.name != second.name:
        yield f"one is {first.name}, the other {second.name}"
        return
    if first.read_bytes() == second.read_bytes():
        return
    read = read_wheel if first.suffix == ".whl" else read_archive
    members, others = read(first), read(second)
    names = [*dict.fromkeys([*members, *others])]
    found = False
    for name in names:
        if name not in members or name not in others:
            yield f"{first.name}: {name} is in one of the two only"
            found = True
        elif members[name] != others[name]:
            where = describe_difference(members[name], others[name])
            yield f"{first.name}: {name} differs in {where}"
            found = True
    if not found and [*members] != [*others]:
        yield f"{first.name}: the files are equal and in another order"
    elif not found:
        yield f"{first.name}: the files are equal, the container's compression or header is not"


def read_wheel(wheel: Path) -> dict[str, tuple[object, bytes]]:
    """Return time and mode with the content of each file of a wheel, in its order."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            info.filename: ((info.date_time, info.external_attr), archive.read(info))
            for info in archive.infolist()
        }


def read_archive(source: Path) -> dict[str, tuple[object, bytes]]:
    """Return time, mode and owner with the content of each file of an archive, in its order."""
    found: dict[str, tuple[object, bytes]] = {}
    with tarfile.open(source) as archive:
        for member in archive:
            content = archive.extractfile(member)
            facts = (member.mtime, member.mode, member.uid, member.gid, member.uname, member.gname)
            found[member.name] = (facts, content.read() if content else b"")
    return found


def describe_difference(first: tuple[object, bytes], second: tuple[object, bytes]) -> str:
    """Return where two files differ: time and mode, sections of shared objects, or a byte."""
    if first[1] == second[1]:
        return f"its time, mode or owner: {first[0]} and {second[0]}"
    if first[1][:4] == second[1][:4] == b"\x7fELF":
        sections, others = _section_hashes(first[1]), _section_hashes(second[1])
        differing = [name for name in sections | others if sections.get(name) != others.get(name)]
        return f"the sections {', '.join(differing) or 'between the sections'}"
    pairs = enumerate(zip(first[1], second[1], strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(first[1]), len(second[1])))
    return f"byte {place} of {len(first[1])} and {len(second[1])}"


def _section_hashes(content: bytes) -> dict[str, str]:
    elf = ELFFile(io.BytesIO(content))
    return {s.name: hashlib.sha256(s.data()).hexdigest() for s in elf.iter_sections()}


def build(work: Path, variables: dict[str, str], mask: int, options: list[str]) -> list[Path]:
    """Return the files that one build gives."""
    work.mkdir(parents=True)
    command = [sys.executable, str(SCRIPTS / "build_wheel.py"), str(work)]
    command += ["--dist", str(work / "dist"), *options]
    subprocess.run(command, env={**os.environ, **variables}, umask=mask, check=True)
    return sorted((work / "dist").iterdir())


def main() -> int:
    """Compare two builds with the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--cuda", choices=["ON", "OFF"], default="ON", help="with GPU code")
    parser.add_argument("--architectures", default="", help="as CMAKE_CUDA_ARCHITECTURES")
    given = parser.parse_args()
    work: Path = given.work.resolve()
    if work.exists():
        parser.error(f"{work} exists; name a folder that does not")
    options = ["--cuda", given.cuda, "--architectures", given.architectures]
    made = [build(work / folder, variables, mask, options) for folder, variables, mask in BUILDS]
    differences = [
        difference
        for first, second in zip(*made, strict=True)
        for difference in compare_files(first, second)
    ]
    for difference in differences:
        print(difference, file=sys.stderr)
    if not differences:
        for path in made[0]:
            print(f"equal: {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
