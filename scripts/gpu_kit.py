"""Puts together what tests/gpu/run.sh needs on a machine with a GPU, and no network.

python scripts/gpu_kit.py OUTPUT

OUTPUT gets wheels/ (endcap's in dist/, those of the tests and of tritonclient, nvJPEG),
tritonserver.tar.xz (NVIDIA's server and its libraries, without the Python backend) and `commit`.
Runs in an environment with pip, the server's wheel and the tests' packages: the kit has their
versions, which are known to work together.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import lzma
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "hypothesis",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
    "pytest",
    "pytest-timeout",
    "sortedcontainers",
)
# gRPC and protobuf too: what a machine has of them seldom fits the client.
CLIENT = (
    "brotli",
    "certifi",
    "gevent",
    "geventhttpclient",
    "greenlet",
    "grpcio",
    "ml-dtypes",
    "protobuf",
    "python-rapidjson",
    "tritonclient",
    "typing-extensions",
    "urllib3",
    "zope-event",
    "zope-interface",
)
# Of the oldest driver that the code may meet, as nvcc is: see cuda-build in pyproject.toml.
NVJPEG = "nvidia-nvjpeg==13.0.*"
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
# What is carried to such a machine may be 64 MiB; the tree itself takes 10 MB of them.
MOST_BYTES = 54_000_000
# For programs, a tenth smaller than a preset, in a minute and a half.
SMALLEST = [
    {"id": lzma.FILTER_X86},
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME},
]


class KitError(Exception):
    """The kit cannot be made; the message says why."""


def output_of(*command: str | Path) -> str:
    """What a program prints; KitError when it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KitError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def collect_wheels(target: Path) -> None:
    """Copies the wheels of endcap, and fetches what the tests need for the same Pythons."""
    target.mkdir(parents=True)
    ours = sorted((ROOT / "dist").glob("endcap-*.whl"))
    if not ours:
        raise KitError("dist/ has no wheel: `make wheel PYTHON=...` for the GPU machine's Python")
    for wheel in ours:
        shutil.copy2(wheel, target)
        fetch(target, python=wheel.name.split("-")[2].removeprefix("cp"))
    for wheel in target.iterdir():
        shrink(wheel)


def shrink(wheel: Path) -> None:
    """Packs a wheel anew by LZMA, which takes a quarter less; unpack_kit.py reads it."""
    smaller = wheel.with_suffix(".smaller")
    with (
        zipfile.ZipFile(wheel) as archive,
        zipfile.ZipFile(smaller, "w", zipfile.ZIP_LZMA) as written,
    ):
        for entry in archive.infolist():
            written.writestr(entry.filename, archive.read(entry))
    smaller.replace(wheel)


def fetch(target: Path, python: str) -> None:
    """Downloads wheels for a Python, such as "312", whatever this machine's is."""
    chosen = ("--no-deps", "--only-binary=:all:", "--implementation=cp", "--python-version", python)
    platforms = [f"--platform={name}_x86_64" for name in PLATFORMS]
    pip = (sys.executable, "-m", "pip", "download", "--dest", target)
    output_of(*pip, *chosen, *platforms, *map(pinned, (*TESTS, *CLIENT)), NVJPEG)


def pinned(package: str) -> str:
    """The package in the version of this environment."""
    try:
        return f"{package}=={importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        raise KitError(f"{package} is not installed here: `make gpu-kit` installs it") from None


def pack_server(target: Path) -> None:
    """Packs bin/tritonserver and lib/ from the server's wheel; no Python, no stubs."""
    package = importlib.util.find_spec("pytriton")
    if package is None or not package.submodule_search_locations:
        raise KitError("nvidia-pytriton is not installed in this environment")
    folder = Path(package.submodule_search_locations[0])
    libraries = folder.parent / "nvidia_pytriton.libs"
    with (
        lzma.open(target, "wb", filters=SMALLEST) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        archive.add(folder / "tritonserver" / "bin" / "tritonserver", "bin/tritonserver")
        for library in sorted(libraries.iterdir()):
            if not library.name.startswith("libpython"):
                archive.add(library, f"lib/{library.name}")


def main() -> int:
    """Makes the kit that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output
    shutil.rmtree(output, ignore_errors=True)
    try:
        collect_wheels(output / "wheels")
        pack_server(output / "tritonserver.tar.xz")
        described = output_of("git", "-C", ROOT, "describe", "--always", "--dirty")
        (output / "commit").write_text(described)
        size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
        if size > MOST_BYTES:
            raise KitError(f"{output} takes {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}")
    except KitError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{output}: {size / 1e6:.1f} MB; on a machine with a GPU: tests/gpu/run.sh {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
