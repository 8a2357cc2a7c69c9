"""C++ compiler and CUDA headers of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from endcap.dali.installation import DaliError

_USUAL = ("g++", "clang++", "c++")
_INSTALL = "install g++ 11, clang++ 14 or later, or name one by CXX"

# Each is in another of NVIDIA's packages for Python; a toolkit has them all.
_CUDA_HEADERS = (Path("cuda_runtime.h"), Path("crt/host_config.h"), Path("nv/target"))
_SYSTEM_CUDA = (Path("/usr/local/cuda/include"), Path("/usr/include"))


def find_compiler() -> list[str]:
    """Return the words of the command of a C++ compiler: CXX, else g++ or clang++.

    Raises:
        DaliError: It does not exist.
    """
    given = os.environ.get("CXX", "")
    if words := given.split():
        if program := shutil.which(words[0]):
            return [program, *words[1:]]
        raise DaliError(f"CXX is {given}, not a program that can be run; {_INSTALL}")
    for usual in _USUAL:
        if program := shutil.which(usual):
            return [program]
    raise DaliError(f"no C++ compiler is found (searched {', '.join(_USUAL)}); {_INSTALL}")


def first_error(output: str) -> str:
    """Return the first error in what a compiler or linker has written, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "undefined reference" in line]
    return (errors or lines[-1:] or ["it says nothing"])[0]


def find_cuda_headers() -> list[Path]:
    """Return the folders that have them all; raise DaliError where there are none.

    They are looked for where CUDA_HOME or CUDA_PATH says, where nvcc is, in /usr/local/cuda and
    /usr/include, and in NVIDIA's packages for Python.
    """
    places = list(dict.fromkeys(_places()))
    for place in places:
        folders = [place, place / "cccl"]  # the second one is where CUDA 13 keeps some
        if all(any((folder / name).is_file() for folder in folders) for name in _CUDA_HEADERS):
            return [folder for folder in folders if folder.is_dir()]
    raise DaliError(
        f"the headers of the CUDA runtime are not found (searched {', '.join(map(str, places))}); "
        "install them with `pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl`, or "
        "set CUDA_HOME to a CUDA toolkit"
    )


def _places() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home) / "include"
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parents[1] / "include"
    yield from _SYSTEM_CUDA
    # Each folder by itself: where one has nvidia/__init__.py, `import nvidia` sees no other.
    for folder in sys.path:
        yield from sorted((Path(folder) / "nvidia").glob("cu[0-9]*/include"), reverse=True)


def run(words: Sequence[str], scratch: Path, *, kept_log: Path) -> None:
    """Run a compiler.

    Args:
        words: The command.
        scratch: A folder for temporary files.
        kept_log: Gets the output of a command that fails.

    Raises:
        DaliError: The command failed.
    """
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
    )
    code, output = done.returncode, done.stdout
    if code and not output.strip():
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise DaliError(
            f"the compiler {words[0]} {how} and without output: perhaps the disk of {scratch} "
            "is full (TMPDIR names another one), or the memory"
        )
    if code:
        kept_log.write_bytes(output)
        raise DaliError(
            f"the DALI operators do not compile: {first_error(output.decode(errors='replace'))}; "
            f"{kept_log} has all of it, and CXX names another compiler"
        )
