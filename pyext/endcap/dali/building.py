"""Build of the library of DALI operators for the DALI that is installed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock

from endcap._files import whole_file
from endcap.dali import built_for
from endcap.dali.built_for import cached_library
from endcap.dali.installation import (
    LIBRARY_NAME,
    NEIGHBOUR_NAMES,
    DaliError,
    DaliInstallation,
    find_core,
    find_dali,
    find_include_folder,
    find_sources,
)

_FLAGS = (
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    # As cmake/EndcapTarget.cmake has it; every compiler knows level 2.
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    *(("-fcf-protection=full",) if platform.machine() == "x86_64" else ()),
)
_LOG_NAME = "compiler.log"
_USUAL = ("g++", "clang++", "c++")
_INSTALL = "install g++ 11, clang++ 14 or later, or name one by CXX"

# Each is in another of NVIDIA's packages for Python; a toolkit has them all.
_CUDA_HEADERS = (Path("cuda_runtime.h"), Path("crt/host_config.h"), Path("nv/target"))
_SYSTEM_CUDA = (Path("/usr/local/cuda/include"), Path("/usr/include"))


@dataclass(frozen=True, kw_only=True)
class BuiltLibrary:
    """The library of operators that a build has given.

    Attributes:
        path: The library; in `output`, where that was given.
        seconds: What compiling it took, 0 where it was there before.
        cached: Whether it was there before.
    """

    path: Path
    seconds: float
    cached: bool


def build(
    output: Path | str | None = None,
    *,
    force: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> BuiltLibrary:
    """Compile the DALI operators for the DALI that is installed, where that was not done before.

    The library is kept in ``$XDG_CACHE_HOME/endcap/dali`` or ``~/.cache/endcap/dali``, where
    ``load`` finds it. Two processes may build at once. ``CXX`` names a C++20 compiler, perhaps with
    options behind it; without it that is g++ or clang++.

    Args:
        output: a folder that gets a copy, with the libraries that it needs; the copy
            works wherever they lie together, with this release of DALI.
        force: compile it in any case.
        progress: is called with the name of each step.

    Raises:
        DaliError: DALI, a compiler or headers are missing or too old, compiling failed, or other
            users may write to the cache.
        OSError: the cache or ``output`` cannot be written.
    """
    built = build_from(find_sources(), force=force, progress=progress)
    if output is None:
        return built
    return replace(built, path=copy_with_neighbours(built.path, Path(output)))


def build_from(
    sources: Path,
    *,
    force: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> BuiltLibrary:
    """Do what `build` does from the ``*.cc`` files of a folder; one of them is built_for.cc."""
    dali = find_dali()
    goal = built_for.find_required_build(dali)
    library = cached_library(goal, sources)
    began = time.monotonic()
    if not force and built_for.fits(library, goal):
        return BuiltLibrary(path=library, seconds=0.0, cached=True)
    command = find_compiler()
    includes = [f"-I{find_include_folder()}"]
    for folder in (dali.include_folder, *find_cuda_headers()):
        if folder != Path("/usr/include"):  # which is searched anyway
            includes += ["-isystem", str(folder)]  # without warnings, which are not about ours
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DaliError(
            f"the cache {library.parent} cannot be made ({error.strerror}); set XDG_CACHE_HOME to "
            "a folder that you may write to"
        ) from error
    with (
        FileLock(library.parent / ".lock"),
        tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name,
    ):
        if not force and built_for.fits(library, goal):  # another process has built it meanwhile
            return BuiltLibrary(path=library, seconds=0.0, cached=True)
        scratch = Path(name)
        # One file that includes the sources: nearly all the time goes into DALI's headers.
        unit, made = scratch / "operators.cc", scratch / LIBRARY_NAME
        files = sorted(file.resolve() for file in sources.glob("*.cc"))
        unit.write_text("".join(f'#include "{file}"\n' for file in files))
        flags = [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={dali.cxx11_abi}", *goal.definitions()]
        words = [*command, *flags, *includes, "-shared", str(unit), *_link(dali), "-o", str(made)]
        progress("compiling the operators")
        _compile(words, scratch, kept_log=library.parent / _LOG_NAME)
        _replace_file(made, library)
    return BuiltLibrary(path=library, seconds=time.monotonic() - began, cached=False)


def _link(dali: DaliInstallation) -> list[str]:
    core = find_core()
    if ":" in str(core.parent):
        raise DaliError(
            f"{core.parent} has a colon in its name, which separates folders for the loader; "
            "install endcap in another folder"
        )
    return [
        # All of ours must be found; what DALI's libraries need of others is theirs.
        "-Wl,-z,defs",
        "-Wl,--allow-shlib-undefined",
        "-Wl,--as-needed",
        "-Wl,-z,relro,-z,now,-z,noexecstack",
        f"-L{core.parent}",
        f"-L{dali.library_folder}",
        "-lendcap_c",
        "-ldali",
        "-ldali_core",
        # Beside itself first: a copy with its neighbours does not depend on this installation.
        # As a word for the linker: -Wl would split a folder's name at a comma.
        *("-Xlinker", "-rpath", "-Xlinker", f"$ORIGIN:{core.parent}"),
    ]


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


def _first_error(output: str) -> str:
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


def _compile(words: Sequence[str], scratch: Path, *, kept_log: Path) -> None:
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
            f"the DALI operators do not compile: {_first_error(output.decode(errors='replace'))}; "
            f"{kept_log} has all of it, and CXX names another compiler"
        )


def copy_with_neighbours(library: Path, folder: Path) -> Path:
    """Copy the operators' library and those that it needs into a folder; return the copy.

    Raises:
        DaliError: A file there has the name of one of them, and is none.
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    core = find_core()
    sources = [core.parent / name for name in NEIGHBOUR_NAMES if (core.parent / name).is_file()]
    copies = {source: folder / source.name for source in sources} | {library: folder / LIBRARY_NAME}
    for target in copies.values():
        if os.path.lexists(target) and not _is_copy(target):
            raise DaliError(
                f"{target} exists and was not created by endcap; move it away, or "
                "give --output another folder"
            )
    for source, target in copies.items():  # the operators last: they need the others
        _replace_file(source, target)
    return folder / LIBRARY_NAME


def _is_copy(file: Path) -> bool:
    """Return whether a file is a library that has this package's name in its own name."""
    if file.is_symlink() or not file.is_file():
        return False
    content = file.read_bytes()
    return content.startswith(b"\x7fELF") and (b"endcap" in content or b"Endcap" in content)


def _replace_file(source: Path, target: Path) -> None:
    """Copy a file into the place of another in one step: a process may be opening that one."""
    with (
        whole_file(target, follow_links=False, mode=0o755, replace_read_only=True) as copy,
        source.open("rb") as original,
    ):
        shutil.copyfileobj(original, copy)
