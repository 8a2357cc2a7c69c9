"""Makes the source archive and, from it, the wheel that runs anywhere; both go to dist/.

python scripts/build_wheel.py WORK [--source-only] [--cuda {ON,OFF}]

WORK is a folder for what arises on the way. The wheel is built from the unpacked source archive, in
an empty build tree, so that nothing of the development tree can get in; auditwheel finds the oldest
manylinux tag that holds; scripts/check_wheel.py has the last word. Where the archive is the one of
the last run, nothing is built again. Runs in an environment with the dependency group `wheel`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import check_wheel  # beside this file

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
# Flags of the caller's shell would get into every file, -march=native among them.
COMPILER_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS", "SKBUILD_CMAKE_ARGS")
MACHINE_FLAGS = re.compile(r"\s-m(arch|tune|cpu|sse[34]|avx|fma|bmi)\S*")


class BuildError(Exception):
    """The wheel cannot be made; the message says why."""


def run(*command: str | Path) -> str:
    """Runs a tool of this environment; returns its output, or raises BuildError with it."""
    environment = {k: v for k, v in os.environ.items() if k not in COMPILER_FLAGS}
    environment["PATH"] = f"{TOOLS}{os.pathsep}{environment['PATH']}"
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    done = subprocess.run(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{done.stdout}\n{' '.join(map(str, command))} failed")
    return done.stdout


def python_build(kind: str, source: Path, target: Path, *options: str) -> Path:
    """Builds one `sdist` or `wheel` of a source tree into a new folder `target`."""
    shutil.rmtree(target, ignore_errors=True)
    module = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}")
    run(*module, *options, "--outdir", target, source)
    (made,) = target.iterdir()
    return made


def build_wheel(archive: Path, work: Path, cuda: str) -> Path:
    """Builds the wheel from the source archive; its libraries are those of the machine."""
    source, tree = work / "source", work / "tree"
    for folder in (source, tree):
        shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(source)
    (unpacked,) = source.iterdir()
    options = (f"-Cbuild-dir={tree}", f"-Ccmake.define.ENDCAP_CUDA={cuda}")
    made = python_build("wheel", unpacked, work / "built", *options)
    for entry in json.loads((tree / "compile_commands.json").read_text()):
        flags = MACHINE_FLAGS.search(entry["command"])
        if flags:
            raise BuildError(f"{entry['file']} is compiled with{flags[0]}, for some machines only")
    return made


def tag_wheel(wheel: Path, target: Path) -> Path:
    """Gives the wheel the oldest manylinux tag that holds, into a new folder `target`.

    Raises BuildError when auditwheel would copy a library into the wheel: what endcap brings it
    brings itself, under names of its own.
    """
    shutil.rmtree(target, ignore_errors=True)
    run("auditwheel", "repair", "--plat", "auto", "--wheel-dir", target, wheel)
    (tagged,) = target.iterdir()
    grafted = file_names(tagged) - file_names(wheel)
    if grafted:
        raise BuildError(
            f"auditwheel put {', '.join(sorted(grafted))} into the wheel; bundle such a library "
            "under a name of endcap's own, as cmake/EndcapJpeg.cmake does, or link it statically"
        )
    return tagged


def file_names(wheel: Path) -> set[str]:
    """The paths of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def put_into_dist(made: Path, outdated: str) -> Path:
    """Copies a file to dist/, where it replaces those that match the pattern `outdated`."""
    DIST.mkdir(exist_ok=True)
    for path in DIST.glob(outdated):
        path.unlink()
    return Path(shutil.copy2(made, DIST))


def make_wheel(archive: Path, work: Path, cuda: str) -> Path:
    """Returns the checked wheel of a source archive in dist/, the one that is there if it fits."""
    record = work / "made-from.json"
    identity = hashlib.sha256(archive.read_bytes()).hexdigest()
    if record.is_file():
        last = json.loads(record.read_text())
        same = last["archive"] == identity and last.get("cuda") == cuda
        if same and (DIST / last["wheel"]).is_file():
            print(f"dist/{last['wheel']} is up to date")
            return DIST / last["wheel"]
    print("building from the source archive, in an empty tree ...", flush=True)
    built = build_wheel(archive, work, cuda)
    tagged = tag_wheel(built, work / "tagged")
    problems = list(check_wheel.check(tagged, cuda=cuda == "ON"))
    if problems:
        raise BuildError("\n".join(f"{tagged.name}: {problem}" for problem in problems))
    name, version, python = tagged.name.split("-")[:3]
    wheel = put_into_dist(tagged, f"{name}-{version}-{python}-*.whl")
    record.write_text(json.dumps({"archive": identity, "cuda": cuda, "wheel": wheel.name}))
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.relative_to(ROOT)}: {size:.2f} MB, every check passed")
    return wheel


def main() -> int:
    """Makes what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--source-only", action="store_true", help="make no wheel")
    parser.add_argument("--cuda", choices=["ON", "OFF"], default="ON", help="with GPU code")
    options = parser.parse_args()
    work = options.work.resolve()
    try:
        archive = python_build("sdist", ROOT, work / "archive")
        put_into_dist(archive, archive.name)
        print(f"dist/{archive.name}: {archive.stat().st_size / 1e6:.2f} MB")
        if not options.source_only:
            make_wheel(archive, work, options.cuda)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
