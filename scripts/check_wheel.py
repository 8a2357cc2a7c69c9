"""Check the files of a wheel, then the package installed from it.

    python scripts/check_wheel.py WHEEL [--without-cuda] [--files-only]

The files are compared with the source tree that this script lies in. The wheel is then installed
with the extra `server` into a new environment outside of that tree, where the shared objects are
tested, an image is decoded, and `endcap demo` sends requests to a real server. --files-only leaves
the installation out. Prints each problem and exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_GLIBC = (2, 35)  # Ubuntu 22.04, the oldest of NVIDIA's images that the backends run in
BACKENDS = ("preprocess", "postprocess", "onnx", "bls", "track")
IMAGE_LIBRARIES = ("jpeg", "png", "webp", "gif")
METADATA = (
    *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "sboms/endcap.cdx.json"),
    *("licenses/LICENSE", "licenses/THIRD_PARTY_LICENSES.txt"),
)
# They would lead out of the new environment.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
DECODE = """
import pathlib, endcap
samples = pathlib.Path(endcap.__file__).parent / "model_repository/detect/samples"
pixels = endcap.decode(min(samples.glob("*.jpg")).read_bytes())
assert pixels.ndim == 3 and pixels.any(), pixels.shape
print(f"endcap {endcap.__version__} decodes an image of {pixels.shape}")
"""


def check_tag(wheel: Path) -> Iterator[str]:
    """Yield a problem where the name does not promise glibc 2.35 or older."""
    versions = re.findall(r"manylinux_(\d+)_(\d+)_(?:x86_64|aarch64)", wheel.name)
    if not versions or max((int(major), int(minor)) for major, minor in versions) > MAX_GLIBC:
        yield "its platform is not manylinux_2_35 or older: build on Debian 12 or Ubuntu 22.04"


def expected_files(wheel: Path, *, cuda: bool = True) -> set[str]:
    """Return every path that the wheel must hold; `cuda`: with GPU code."""
    distribution, version, _, abi, platform = wheel.stem.split("-")
    machine = "aarch64" if platform.endswith("aarch64") else "x86_64"
    folders = {
        "pyext/endcap": "endcap",
        **{f: f"endcap/{f}" for f in ("model_repository", "deploy")},
    }
    sources = (ROOT / "backends" / "dali").glob("**/*.[ch]*")
    return {
        *(f"{target}/{name}" for source, target in folders.items() for name in _list_files(source)),
        *(f"endcap/dali/sources/{path.name}" for path in sources if path.suffix in (".cc", ".h")),
        *(f"{distribution}-{version}.dist-info/{name}" for name in METADATA),
        *(f"endcap/backends/endcap_{b}/libtriton_endcap_{b}.so" for b in BACKENDS),
        *(
            f"{folder}/libendcap_{name}.so"
            for folder in ("endcap", "endcap/backends/endcap_preprocess")
            for name in IMAGE_LIBRARIES
        ),
        "endcap/backends/endcap_postprocess/libendcap_png.so",  # which encodes class maps
        "endcap/backends/python_stub/triton_python_backend_stub",
        f"endcap/_core.{abi.replace('cp', 'cpython-')}-{machine}-linux-gnu.so",
        "endcap/libendcap_c.so",
        "endcap/include/endcap/c_api.h",
        *(["endcap/libendcap_cuda.so"] if cuda else []),
    }


def _list_files(folder: str) -> Iterator[str]:
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT / folder).as_posix()


def check_files(wheel: Path, *, cuda: bool = True) -> Iterator[str]:
    """Yield the files that are missing, and those that do not belong into the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    expected = expected_files(wheel, cuda=cuda)
    for name in sorted(expected - names):
        yield f"{name} is missing"
    for name in sorted(names - expected):
        yield f"{name} is neither in the source tree nor expected from the build"


def try_package(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment in a folder, and use it there.

    Raises:
        subprocess.CalledProcessError: A step failed.
    """
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    programs = folder / "venv" / "bin"
    environment = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    environment.update(PATH=f"{programs}:{os.environ['PATH']}", PYTHONNOUSERSITE="1")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment.setdefault("PIP_CACHE_DIR", str(cache / "pip"))
    environment["XDG_CACHE_HOME"] = str(folder / "cache")  # where endcap installs its server

    def run(program: str, *arguments: str | Path) -> None:
        print(f"check_wheel: {program} {' '.join(map(str, arguments)).strip()[:90]}", flush=True)
        command = [programs / program, *arguments]
        subprocess.run(command, cwd=folder, env=environment, check=True)

    run("pip", "install", "--quiet", f"{wheel.resolve()}[server]", "pytest")
    test = ROOT / "tests" / "python" / "core" / "test_shared_objects.py"
    run("pytest", "-q", "-c", os.devnull, "--noconftest", "--import-mode=importlib", test)
    run("python", "-c", DECODE)
    run("endcap", "--version")
    run("endcap", "demo", "--output", "pictures")
    if not list((folder / "pictures").glob("*_detections.jpg")):
        raise SystemExit("check_wheel: endcap demo wrote no picture")


def main() -> int:
    """Check the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--without-cuda", action="store_true", help="the wheel has no GPU code")
    parser.add_argument("--files-only", action="store_true", help="install nothing")
    options = parser.parse_args()
    wheel: Path = options.wheel
    problems = [*check_tag(wheel), *check_files(wheel, cuda=not options.without_cuda)]
    for problem in problems:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    if problems:
        return 1
    if not options.files_only:
        with tempfile.TemporaryDirectory(prefix="endcap-wheel-") as folder:
            try_package(wheel, Path(folder))
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, every check passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
