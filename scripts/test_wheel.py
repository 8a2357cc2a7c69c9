"""Tests of the wheel in dist/ in empty environments, far from the source tree.

    python scripts/test_wheel.py [WHEEL] [--neighbours {few,all}] [--keep]

In a first environment one pip command installs `WHEEL[server]` with packages that users have beside
it: NumPy 2 and OpenCV, with `--neighbours all` also ultralytics and supervision, which bring some
gigabytes of torch. There it runs `endcap demo` and `endcap doctor`, uses all these packages in one
process, and runs the tests of the library. In a second environment, with what tests of a server
need, it runs those of the tests on a server that need no source tree; with Python 3.13 and later
those without Python models. Everything lies in a folder for temporary files, which is removed at
the end. Exits with 0 when all went well. Needs the standard library only.
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
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They would lead to the source tree, or to packages of the user's.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
# What users have beside endcap, by the value of --neighbours.
FEW = ("numpy>=2", "opencv-python")
NEIGHBOURS = {"few": FEW, "all": (*FEW, "ultralytics", "supervision")}
MODULES = {"numpy": "numpy", "opencv-python": "cv2"}  # by package, where they differ
# The libraries as they were installed, and each stage against its definition.
LIBRARY_TESTS = (
    "python/core/test_package.py",
    "python/core/test_shared_objects.py",
    "python/core/test_errors.py",
    "python/core/test_decode.py",
    "python/core/test_preprocess.py",
    "python/core/test_presets.py",
    "python/core/test_box_decode.py",
    "python/core/test_nms.py",
    "python/core/test_postprocess.py",
    "python/core/test_implementations.py",
    "python/core/test_threads.py",
    "python/core/test_free_threading.py",
    "python/cli/test_commands.py",
)
# Python models in the environment that endcap makes for them, beside NumPy 2.
PRIVATE_PYTHON_TESTS = ("python/cli/test_infer.py",)
# The compiled backends on a server.
SERVER_TESTS = (
    "triton/test_library_in_model_folder.py",
    "triton/test_preprocess.py",
    "triton/test_postprocess.py",
    "triton/test_classification.py",
    "triton/test_onnx_backend.py",
)
# Tests with Python models, or of the server of the dependency group test-server.
PYTHON_MODEL_TESTS = (
    "python/tools/test_doctor.py",
    "python/server/test_launch.py",
    "python/environment/test_stub.py",
    "triton/test_shipped_repository.py",
    "triton/test_evaluate.py",
)
NEWEST_WITH_PYTHON_MODELS = (3, 12)  # as there is no NumPy below 2 for later ones
SHOW_PLACE = "import endcap; print(endcap.__file__)"
# Works in a process that has imported all of them, and shows their versions.
USE_TOGETHER = """
import importlib, importlib.metadata, pathlib, sys
neighbours = dict(pair.split("=") for pair in sys.argv[1:])
for module in neighbours.values():
    importlib.import_module(module)
import endcap, numpy
samples = pathlib.Path(endcap.__file__).parent / "model_repository/detect/samples"
prepared = endcap.Preprocessor(size=(640, 640))(min(samples.glob("*.jpg")).read_bytes())
assert isinstance(prepared.images, numpy.ndarray) and prepared.images.any()
print(*(f"{name} {importlib.metadata.version(name)}" for name in neighbours), sep=", ")
"""


class StepError(Exception):
    """A step went wrong."""


class Place:
    """A folder with an empty virtual environment in it."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make the environment `name` in a folder, which others share with their own."""
        self.folder = folder
        self.venv = folder / name
        self.bin = self.venv / "bin"
        self.environment = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        others = [p for p in os.environ["PATH"].split(os.pathsep) if not _is_below(Path(p), ROOT)]
        self.environment["PATH"] = os.pathsep.join([str(self.bin), *others])
        self.environment["PYTHONNOUSERSITE"] = "1"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.environment.setdefault("PIP_CACHE_DIR", str(cache / "pip"))
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")  # of endcap's own server
        venv.create(self.venv, with_pip=True, symlinks=True)  # as `python -m venv` does

    def run(
        self, program: str, *arguments: str | Path, show: bool = True, good: Iterable[int] = (0,)
    ) -> str:
        """Run a program of the environment.

        Args:
            program: Its name.
            arguments: Its arguments.
            show: Whether its output is printed; else it is returned.
            good: Exit codes that are no failure.

        Raises:
            StepError: It ended with another exit code.
        """
        done = subprocess.run(
            [str(self.bin / program), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdout=None if show else subprocess.PIPE,
            stderr=None if show else subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode not in good:
            raise StepError(f"{done.stdout or ''}{program} ended with exit code {done.returncode}")
        return done.stdout or ""

    def install(self, *arguments: str | Path) -> None:
        """Install with pip."""
        self.run("python", "-m", "pip", "install", "--quiet", *arguments, show=False)


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def find_wheel() -> Path:
    """Return the wheel in dist/ of the tree's version, for the running Python."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    threading = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    name = f"endcap-{version}-{python}-{python}{threading}-*.whl"
    wheels = sorted((ROOT / "dist").glob(name))
    if len(wheels) != 1:
        found = ", ".join(path.name for path in wheels) or "nothing"
        raise StepError(f"dist/ holds {found} where one {name} is wanted; run `make wheel`")
    return wheels[0]


def install_wheel(place: Place, *requirements: str | Path) -> Path:
    """Install the wheel and its neighbours by one command; return the package's folder."""
    place.install("--upgrade", "pip>=25.1")
    place.install(*requirements)
    package = Path(place.run("python", "-c", SHOW_PLACE, show=False).strip()).parent
    if not _is_below(package, place.venv.resolve()):
        raise StepError(f"endcap was imported from {package}, and not from the new environment")
    return package


def run_demo(place: Place) -> None:
    """Run the command line, and the demo on endcap's own server."""
    place.run("endcap", "--version")
    place.run("endcap", "demo", "--output", "demo-output")
    if not list((place.folder / "demo-output").glob("*_detections.jpg")):
        raise StepError("endcap demo wrote no picture")


def use_together(place: Place, neighbours: Iterable[str]) -> None:
    """Import endcap and its neighbours into one process; pip must have kept what was asked for."""
    names = [re.split("[<>=!~]", requirement)[0] for requirement in neighbours]
    pairs = [f"{name}={MODULES.get(name, name)}" for name in names]
    place.run("python", "-c", USE_TOGETHER, *pairs)
    place.run("python", "-m", "pip", "check")


def run_tests(place: Place, package: Path, tests: Iterable[str]) -> None:
    """Run tests on the installed package; the model repository is a copy of the wheel's."""
    ignore = shutil.ignore_patterns("__pycache__")
    if not (place.folder / "tests").exists():
        shutil.copytree(ROOT / "tests", place.folder / "tests", ignore=ignore)
        models = "model_repository"
        shutil.copytree(package / models, place.folder / models, ignore=ignore)
        shutil.copy2(ROOT / "pyproject.toml", place.folder)  # pytest's settings
    place.run("python", "-m", "pytest", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests))


def group_options(*names: str) -> list[str]:
    """Return pip's options for dependency groups of the source tree."""
    return [word for name in names for word in ("--group", f"{ROOT / 'pyproject.toml'}:{name}")]


def try_wheel(wheel: Path, folder: Path, neighbours: Sequence[str]) -> None:
    """Run all steps, each announced with the time since the start."""
    start = time.monotonic()

    def announce(step: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {step}", flush=True)

    announce(f"an empty environment with Python {sysconfig.get_python_version()} in {folder}")
    beside = Place(folder, "venv")
    announce(f"installing {wheel.name}[server] with {', '.join(neighbours)}")
    package = install_wheel(beside, f"{wheel}[server]", *neighbours)
    announce("running endcap --version and endcap demo")
    run_demo(beside)
    announce("running endcap doctor, which may warn of this machine")
    beside.run("endcap", "doctor", good=(0, 1))
    announce("using all of them in one process")
    use_together(beside, neighbours)
    announce("installing the test tools, and testing the library beside them")
    beside.install(*neighbours, *group_options("test"))
    python_models = sys.version_info[:2] <= NEWEST_WITH_PYTHON_MODELS
    run_tests(beside, package, LIBRARY_TESTS + (PRIVATE_PYTHON_TESTS if python_models else ()))
    announce("testing on a server, in a second environment")
    served = Place(folder, "venv-server")
    package = install_wheel(
        served, f"{wheel}[server,evaluate]", *group_options("test", "test-server")
    )
    run_tests(served, package, SERVER_TESTS + (PYTHON_MODEL_TESTS if python_models else ()))
    announce(f"{wheel.name} works")


def main() -> int:
    """Try the wheel that the command line names, else the one in dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?", help="default: the one in dist/")
    parser.add_argument(
        "--neighbours",
        choices=NEIGHBOURS,
        default="few",
        help="what is installed beside it: "
        + "; ".join(f"{name}: {', '.join(packages)}" for name, packages in NEIGHBOURS.items()),
    )
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="endcap-wheel-"))
    try:
        wheel = (options.wheel or find_wheel()).resolve()
        try_wheel(wheel, folder, NEIGHBOURS[options.neighbours])
    except StepError as failure:
        print(f"test_wheel: {failure}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
