"""Build the source archive and, from it, a wheel that runs on any Linux; both go to dist/.

    python scripts/build_wheel.py WORK [--source-only] [--cuda {ON,OFF}]
                                  [--arm64-sysroot FOLDER] [--dist FOLDER] [--finish WHEEL]

WORK is a folder for intermediate files. The wheel is built from the unpacked source archive, in an
empty build tree, so that nothing of the development tree can get in; scripts/sbom.py adds the bill
of materials; auditwheel finds the oldest manylinux tag that holds; scripts/check_wheel.py checks
the result. Where archive and options are those of the last run, nothing is built again. With
--finish another program, cibuildwheel, has built the wheel in the build tree WORK/tree, and the
last three steps follow. Runs in an environment with the dependency group `wheel`.

With --arm64-sysroot the wheel is for arm64, without GPU code: cross-compiled with the libraries of
scripts/arm64_sysroot.sh, whose Python has to be of the version of the one that runs this.

The time of every file in the results is SOURCE_DATE_EPOCH, by default the time of the commit, so
that two builds of one source with the same tools are equal.
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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import check_wheel  # beside this file, as the next three
import sbom
from steps import BuildError, Steps

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent
# Flags of the caller's shell would get into every file, -march=native among them.
COMPILER_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS", "SKBUILD_CMAKE_ARGS")
MACHINE_FLAGS = re.compile(r"\s-m(arch|tune|cpu|sse[34]|avx|fma|bmi)\S*")


@dataclass(frozen=True)
class WheelOptions:
    """What the wheel is built with.

    Attributes:
        cuda: ON, with GPU code, or OFF.
        arm64_sysroot: Folder of arm64 libraries for a cross build; empty for this machine.
    """

    cuda: str = "ON"
    arm64_sysroot: str = ""

    def settings(self) -> list[str]:
        """Return the options of the build backend."""
        settings = [f"-Ccmake.define.ENDCAP_CUDA={self.cuda}"]
        if self.arm64_sysroot:
            toolchain = ROOT / "cmake" / "Arm64Toolchain.cmake"
            headers = Path(self.arm64_sysroot, "usr", "include", _python_name())
            settings += [
                f"-Ccmake.define.CMAKE_TOOLCHAIN_FILE={toolchain}",
                f"-Ccmake.define.ENDCAP_ARM64_SYSROOT={self.arm64_sysroot}",
                f"-Ccmake.define.Python_INCLUDE_DIR={headers}",
                "-Ccmake.define.PYBIND11_USE_CROSSCOMPILING=ON",
            ]
        return settings

    def environment(self) -> dict[str, str]:
        """Return the variables that tell the build backend which machine the wheel is for."""
        if not self.arm64_sysroot:
            return {}
        abi = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
        return {
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
            "SETUPTOOLS_EXT_SUFFIX": f".{abi}-aarch64-linux-gnu.so",
        }

    def check(self) -> None:
        """Check that a cross build is possible.

        Raises:
            BuildError: The folder has no headers of this version of Python, or GPU code is wanted.
        """
        if not self.arm64_sysroot:
            return
        if self.cuda == "ON":
            raise BuildError("a wheel for arm64 is built without GPU code: give --cuda OFF")
        header = Path(self.arm64_sysroot, "usr", "include", _python_name(), "Python.h")
        if not header.is_file():
            raise BuildError(
                f"there is no {header}: run scripts/arm64_sysroot.sh, and take the version of "
                "Python that Debian has"
            )


class WheelBuilder:
    """Builds source archive and wheel, both into one folder."""

    def __init__(self, work: Path, dist: Path) -> None:
        """Take a folder for intermediate files and the folder of the results."""
        self._work = work
        self._dist = dist
        self._steps = Steps()
        self._epoch = source_epoch()

    def build_archive(self) -> Path:
        """Build the source archive; return its path in the folder of results."""
        with self._steps.step("source archive"):
            made = self._python_build("sdist", ROOT, self._work / "archive")
            archive = self._put_into_dist(made, made.name)
        self._report(archive)
        return archive

    def build_wheel(self, archive: Path, options: WheelOptions) -> Path:
        """Return the checked wheel of a source archive, the one that is there if it fits.

        Raises:
            BuildError: It cannot be built, or a check fails.
        """
        options.check()
        record = self._work / "made-from.json"
        identity = {"archive": hashlib.sha256(archive.read_bytes()).hexdigest(), **asdict(options)}
        last: dict[str, str] = json.loads(record.read_text()) if record.is_file() else {}
        wheel = self._dist / last.pop("wheel", "none")
        if last == identity and wheel.is_file():
            self._steps.say(f"{_shown(wheel)} is up to date")
            return wheel
        with self._steps.step("wheel from the source archive, in an empty build tree"):
            built = self._build_unpacked(archive, options)
        wheel = self.finish(built, options)
        record.write_text(json.dumps({**identity, "wheel": wheel.name}))
        return wheel

    def finish(self, built: Path, options: WheelOptions) -> Path:
        """Return the wheel with its bill of materials and its tag, checked.

        Args:
            built: A wheel that was built in the folder `tree` of the folder for intermediate files.
            options: What it was built with.

        Raises:
            BuildError: A check fails.
        """
        with self._steps.step("bill of materials"):
            self._add_bill(built, options)
        with self._steps.step("manylinux tag"):
            tagged = self._tag(built)
        with self._steps.step("checks of the wheel"):
            problems = list(check_wheel.check(tagged, cuda=options.cuda == "ON"))
        if problems:
            raise BuildError("\n".join(f"{tagged.name}: {problem}" for problem in problems))
        same = "-".join(tagged.name.split("-")[:4])  # but for the platform
        wheel = self._put_into_dist(tagged, f"{same}-*.whl")
        self._report(wheel)
        return wheel

    def _run(self, *command: str | Path, variables: Mapping[str, str] | None = None) -> str:
        """Run a tool of this environment, without compiler flags of the caller's shell."""
        environment = {k: v for k, v in os.environ.items() if k not in COMPILER_FLAGS}
        environment.update(variables or {})
        environment["PATH"] = f"{TOOLS}{os.pathsep}{environment['PATH']}"
        environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
        environment["SOURCE_DATE_EPOCH"] = str(self._epoch)
        return self._steps.run(*command, environment=environment)

    def _python_build(
        self,
        kind: str,
        source: Path,
        target: Path,
        *options: str,
        variables: Mapping[str, str] | None = None,
    ) -> Path:
        """Build one `sdist` or `wheel` of a source tree into a new folder `target`."""
        shutil.rmtree(target, ignore_errors=True)
        module = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}")
        self._run(*module, *options, "--outdir", target, source, variables=variables)
        (made,) = target.iterdir()
        return made

    def _build_unpacked(self, archive: Path, options: WheelOptions) -> Path:
        """Build the wheel from the source archive; its libraries are those of this machine."""
        source, tree = self._work / "source", self._work / "tree"
        for folder in (source, tree):
            shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(archive) as opened:
            opened.extractall(source)
        (unpacked,) = source.iterdir()
        settings = (f"-Cbuild-dir={tree}", *options.settings())
        return self._python_build(
            "wheel", unpacked, self._work / "built", *settings, variables=options.environment()
        )

    def _add_bill(self, wheel: Path, options: WheelOptions) -> None:
        tree = self._work / "tree"
        check_commands(json.loads((tree / "compile_commands.json").read_text()))
        try:
            sbom.write_sbom(wheel, tree, cuda=options.cuda == "ON", epoch=self._epoch)
        except sbom.SbomError as error:
            raise BuildError(f"the bill of materials cannot be written: {error}") from error

    def _tag(self, wheel: Path) -> Path:
        """Give the wheel the oldest manylinux tag that holds.

        Raises:
            BuildError: auditwheel would copy a library into the wheel; endcap bundles its libraries
                itself, under names of its own.
        """
        target = self._work / "tagged"
        shutil.rmtree(target, ignore_errors=True)
        self._run("auditwheel", "repair", "--plat", "auto", "--wheel-dir", target, wheel)
        (tagged,) = target.iterdir()
        grafted = file_names(tagged) - file_names(wheel)
        if grafted:
            raise BuildError(
                f"auditwheel put {', '.join(sorted(grafted))} into the wheel; bundle such a "
                "library under a name of endcap's own, as cmake/EndcapJpeg.cmake does, or link it "
                "statically"
            )
        return tagged

    def _put_into_dist(self, made: Path, outdated: str) -> Path:
        """Copy a file to the results, where it replaces those that match `outdated`."""
        self._dist.mkdir(parents=True, exist_ok=True)
        for path in self._dist.glob(outdated):
            path.unlink()
        return Path(shutil.copy2(made, self._dist))

    def _report(self, made: Path) -> None:
        self._steps.say(f"{_shown(made)}: {made.stat().st_size / 1e6:.2f} MB")


def check_commands(commands: list[dict[str, str]]) -> None:
    """Check the compilations of a build tree, as compile_commands.json has them.

    Raises:
        BuildError: One uses instructions that not every machine has, or lacks protection.
    """
    for entry in commands:
        flags = MACHINE_FLAGS.search(entry["command"])
        if flags:
            raise BuildError(
                f"{entry['file']} is compiled with{flags[0]}, which other machines cannot run"
            )
        needed = ["-fstack-protector-strong"]
        if not entry["file"].endswith(".cu"):
            needed.append("-D_FORTIFY_SOURCE=")
        missing = [flag for flag in needed if flag not in entry["command"]]
        if missing:
            raise BuildError(
                f"{entry['file']} is compiled without {' '.join(missing)}; let its target call "
                "endcap_target_defaults or endcap_harden of cmake/EndcapTarget.cmake"
            )


def source_epoch() -> int:
    """Return the time of the source, in seconds since 1970.

    It is SOURCE_DATE_EPOCH, else the time of the commit, else, without git, that of pyproject.toml,
    which has the time of the commit in an unpacked source archive.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    if (ROOT / ".git").exists():
        command = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return int((ROOT / "pyproject.toml").stat().st_mtime)


def file_names(wheel: Path) -> set[str]:
    """Return the paths of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def _python_name() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main() -> int:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--source-only", action="store_true", help="build no wheel")
    parser.add_argument("--cuda", choices=["ON", "OFF"], default="ON", help="with GPU code")
    parser.add_argument(
        "--arm64-sysroot", type=Path, metavar="FOLDER", help="for arm64, with these libraries"
    )
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="default: dist/")
    parser.add_argument(
        "--finish", type=Path, metavar="WHEEL", help="one that was built in WORK/tree"
    )
    options = parser.parse_args()
    os.umask(0o022)  # what auditwheel unpacks has its modes, which go into the wheel
    sysroot = str(options.arm64_sysroot.resolve()) if options.arm64_sysroot else ""
    wheel_options = WheelOptions(options.cuda, sysroot)
    builder = WheelBuilder(options.work.resolve(), options.dist.resolve())
    try:
        if options.finish:
            builder.finish(options.finish, wheel_options)
            return 0
        archive = builder.build_archive()
        if not options.source_only:
            builder.build_wheel(archive, wheel_options)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
