"""C++ compiler and CUDA headers of this machine, and the compilation of several files at once."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from endcap.dali.installation import DaliError

_USUAL = ("g++", "clang++", "c++")
_INSTALL = "install one (Debian, Ubuntu: `apt install g++`), or name one with --compiler"

# Compilers call C++20 what they have of it: this is what the operators take.
_PROBE = """\
#include <bit>
#include <concepts>
#include <span>
template <std::integral T>
constexpr T First(std::span<const T> values) { return values.front(); }
constexpr int kValues[] = {1};
static_assert(First<int>(kValues) == std::bit_cast<int>(1u));
"""

# Each is in another of NVIDIA's packages for Python; a toolkit has them all.
_CUDA_HEADERS = (Path("cuda_runtime.h"), Path("crt/host_config.h"), Path("nv/target"))
_SYSTEM_CUDA = (Path("/usr/local/cuda/include"), Path("/usr/include"))

_POLL_S = 0.05


def find_compiler(given: str | None = None) -> list[str]:
    """Return the words of the command that compiles C++20.

    Args:
        given: A compiler, perhaps with options behind it; None takes CXX, else g++ or clang++.

    Raises:
        DaliError: There is none, or where it is too old.
    """
    command = _command(given)
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch:
        source = Path(scratch, "probe.cc")
        source.write_text(_PROBE)
        words = [*command, "-std=c++20", "-fsyntax-only", str(source)]
        try:
            tried = subprocess.run(
                words, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise DaliError(
                f"the compiler {command[0]} cannot be run ({error.strerror}); {_INSTALL}"
            ) from error
    if tried.returncode != 0:
        raise DaliError(
            f"the compiler {shlex.join(command)} cannot compile C++20 "
            f"({first_error(tried.stderr)}); take g++ 11, clang++ 14 or later: {_INSTALL}"
        )
    return command


def version_of(command: list[str]) -> str:
    """Return the first line in which a compiler tells its version."""
    told = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, errors="replace", check=False
    )
    return (told.stdout.splitlines() or ["of unknown version"])[0]


def first_error(output: str) -> str:
    """Return the first error in what a compiler or linker has written, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "undefined reference" in line]
    return (errors or lines[-1:] or ["it says nothing"])[0]


def _command(given: str | None) -> list[str]:
    for name, text in (("--compiler", given), ("CXX", os.environ.get("CXX"))):
        try:
            words = shlex.split(text or "")
        except ValueError as error:  # a quotation mark that is open
            raise DaliError(
                f"{name} is {text}, which is no command ({error}); {_INSTALL}"
            ) from error
        if words and (program := shutil.which(words[0])):
            return [program, *words[1:]]
        if words:
            raise DaliError(f"{name} is {text}, which is no program that can be run; {_INSTALL}")
    for usual in _USUAL:
        if program := shutil.which(usual):
            return [program]
    raise DaliError(f"no C++ compiler is found (searched {', '.join(_USUAL)}); {_INSTALL}")


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


class _Command:
    """One running compiler; what it writes goes into a file."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.words = words
        self.log = log
        with log.open("wb") as stream:
            self.process = _start(words, stream, log.parent)

    def succeeded(self, kept_log: Path) -> bool:
        """Return whether it has ended well, False while it runs; DaliError where it failed."""
        code = self.process.poll()
        if code:
            output = self.log.read_bytes()
            if not output.strip():
                raise DaliError(_silent(self.words[0], code, self.log.parent))
            kept_log.write_bytes(output)
            reason = first_error(output.decode(errors="replace"))
            raise DaliError(
                f"the DALI operators do not compile: {reason}; {kept_log} has all of it, and "
                "--compiler names another compiler"
            )
        return code is not None

    def stop(self) -> None:
        """End it, where it still runs, with what it has started: g++ is only a driver."""
        if self.process.returncode is None:  # not waited for, so that the group is still its own
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run_all(
    commands: Sequence[tuple[Sequence[str], Path]],
    *,
    jobs: int,
    kept_log: Path,
) -> None:
    """Run commands; the first one that fails, or any other exception, ends the others.

    Args:
        commands: Each with the file that its output is written to.
        jobs: How many run at once.
        kept_log: Gets the output of a command that fails.

    Raises:
        DaliError: A command has failed.
    """
    waiting = list(reversed(commands))
    running: list[_Command] = []
    # Signals raise in the main thread alone: what another one starts is always in `running`.
    with _all_ended(running), ThreadPoolExecutor(1) as starter:
        while waiting or running:
            while waiting and len(running) < jobs:
                starter.submit(lambda: running.append(_Command(*waiting.pop()))).result()
            for command in [each for each in running if each.succeeded(kept_log)]:
                running.remove(command)
            time.sleep(_POLL_S if running else 0)


@contextlib.contextmanager
def _all_ended(running: list[_Command]) -> Iterator[None]:
    try:
        yield
    finally:
        for command in running:
            command.stop()


def _silent(compiler: str, code: int, folder: Path) -> str:
    """Return the message for a compiler that failed without output."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return (
        f"the compiler {compiler} {how} and without output: perhaps the disk of {folder} is full "
        "(TMPDIR names another one), or the memory"
    )


def _start(words: Sequence[str], output: IO[bytes], temporary: Path) -> subprocess.Popen[bytes]:
    """Start a compiler as the leader of a process group, with a folder for temporary files."""
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    except OSError as error:
        raise DaliError(
            f"the compiler {words[0]} cannot be run ({error.strerror}); name another one with "
            "--compiler"
        ) from error
