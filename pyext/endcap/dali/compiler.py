"""The C++ compiler of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from endcap._system.scratch import scratch_folder
from endcap.dali.errors import DaliError

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


def find_compiler(given: str | None = None) -> list[str]:
    """Return the words of the command that compiles C++20.

    Args:
        given: A compiler, perhaps with options behind it; None takes CXX, else g++ or clang++.

    Raises:
        DaliError: There is none, or where it is too old.
    """
    command = _command(given)
    with scratch_folder("compiler-check") as scratch:
        source = scratch / "probe.cc"
        source.write_text(_PROBE)
        words = [*command, "-std=c++20", "-fsyntax-only", str(source)]
        try:
            tried = subprocess.run(words, capture_output=True, text=True, check=False)
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
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
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
