"""Tries the wheel in dist/ as a stranger would: an empty environment, far from the source tree.

python scripts/test_wheel.py [WHEEL] [--keep]

Installs `WHEEL[server]` and nothing else, runs the demo, then adds the test tools and runs those of
the tests that need no source tree. Everything lies in a temporary folder that goes away at the end.
Exits with 0 when all went well. Needs the standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They would lead to the source tree, or to packages of the user's.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
# The whole chain, the libraries as they were installed, and each stage against its definition.
TESTS = (
    "python/test_package.py",
    "python/test_shared_objects.py",
    "python/test_errors.py",
    "python/test_decode.py",
    "python/test_preprocess.py",
    "python/test_presets.py",
    "python/test_box_decode.py",
    "python/test_nms.py",
    "python/test_postprocess.py",
    "python/test_implementations.py",
    "python/test_threads.py",
    "python/test_cli.py",
    "python/test_cli_infer.py",
    "python/test_doctor.py",
    "python/test_server_launch.py",
    "python/test_stub.py",
    "python/test_web_http.py",
    "python/test_web_run.py",
    "triton/test_library_in_model_folder.py",
    "triton/test_shipped_repository.py",
    "triton/test_preprocess.py",
    "triton/test_postprocess.py",
    "triton/test_classification.py",
    "triton/test_evaluate.py",
)
SHOW_PLACE = "import endcap; print(endcap.__file__)"


class StepError(Exception):
    """A step went wrong; the message is a sentence."""


class Place:
    """A folder with an empty virtual environment in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.environment = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        others = [p for p in os.environ["PATH"].split(os.pathsep) if not _is_below(Path(p), ROOT)]
        self.environment["PATH"] = os.pathsep.join([str(self.bin), *others])
        self.environment["PYTHONNOUSERSITE"] = "1"
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")  # of endcap's own server
        venv.create(folder / "venv", with_pip=True, symlinks=True)  # as `python -m venv` does

    def run(self, program: str, *arguments: str | Path, show: bool = True) -> str:
        """Runs a program of the environment; StepError when it fails. Returns what it hid."""
        done = subprocess.run(
            [str(self.bin / program), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdout=None if show else subprocess.PIPE,
            stderr=None if show else subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise StepError(f"{done.stdout or ''}{program} ended with exit code {done.returncode}")
        return done.stdout or ""

    def install(self, *arguments: str | Path) -> None:
        """Installs with pip."""
        self.run("python", "-m", "pip", "install", "--quiet", *arguments, show=False)


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def find_wheel() -> Path:
    """Returns the wheel in dist/ of the tree's version, for the running Python."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    name = f"endcap-{version}-{python}-*.whl"
    wheels = sorted((ROOT / "dist").glob(name))
    if len(wheels) != 1:
        found = ", ".join(path.name for path in wheels) or "nothing"
        raise StepError(f"dist/ holds {found} where one {name} is wanted; run `make wheel`")
    return wheels[0]


def install_wheel(place: Place, wheel: Path) -> Path:
    """Installs the wheel with what serving takes; returns the package's folder."""
    place.install("--upgrade", "pip>=25.1")
    place.install(f"{wheel}[server]")
    package = Path(place.run("python", "-c", SHOW_PLACE, show=False).strip()).parent
    if not _is_below(package, (place.folder / "venv").resolve()):
        raise StepError(f"endcap was imported from {package}, and not from the new environment")
    return package


def run_demo(place: Place) -> None:
    """Runs the command line, and the demo on endcap's own server."""
    place.run("endcap", "--version")
    place.run("endcap", "demo", "--output", "demo-output")
    if not list((place.folder / "demo-output").glob("*_detections.jpg")):
        raise StepError("endcap demo wrote no picture")


def run_tests(place: Place, wheel: Path, package: Path) -> None:
    """Runs the tests on the installed package; the model repository is a copy of the wheel's."""
    groups = [f"{ROOT / 'pyproject.toml'}:{name}" for name in ("test", "test-server")]
    place.install(f"{wheel}[evaluate]", *(word for each in groups for word in ("--group", each)))
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", place.folder / "tests", ignore=ignore)
    shutil.copytree(package / "model_repository", place.folder / "model_repository", ignore=ignore)
    shutil.copy2(ROOT / "pyproject.toml", place.folder)  # pytest's settings
    place.run("python", "-m", "pytest", "-p", "no:cacheprovider", *(f"tests/{t}" for t in TESTS))


def try_wheel(wheel: Path, folder: Path) -> None:
    """All steps, each announced with the time since the start."""
    start = time.monotonic()

    def announce(step: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {step}", flush=True)

    announce(f"an empty environment with Python {sysconfig.get_python_version()} in {folder}")
    place = Place(folder)
    announce(f"installing {wheel.name}[server]")
    package = install_wheel(place, wheel)
    announce("running endcap --version and endcap demo")
    run_demo(place)
    announce("installing the extra `evaluate` and the test tools, and testing what is installed")
    run_tests(place, wheel, package)
    announce(f"{wheel.name} works")


def main() -> int:
    """Tries the wheel that the command line names, else the one in dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?", help="default: the one in dist/")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="endcap-wheel-"))
    try:
        try_wheel((options.wheel or find_wheel()).resolve(), folder)
    except StepError as failure:
        print(f"test_wheel: {failure}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
