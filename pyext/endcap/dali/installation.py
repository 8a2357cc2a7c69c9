"""Installed DALI, and the files of this package that the operators are made from and linked to."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from endcap._pip_commands import find_in_package, install_command
from endcap.errors import EndcapError


class DaliError(EndcapError, RuntimeError):
    """The DALI operators cannot be built or loaded.

    The message says what was found and what to do next.
    """


MIN_RELEASE = "1.53"  # the oldest release that the operators were tried with


@dataclass(frozen=True, kw_only=True)
class DaliInstallation:
    """One installation of DALI.

    Attributes:
        version: Of the release, "2.4.0".
        identity: What tells one build of a release from another: DALI's commit and its CUDA.
        cxx11_abi: The layout of std::string in it, 0 or 1.
    """

    version: str
    identity: str
    cxx11_abi: int
    include_folder: Path
    library_folder: Path


def find_dali() -> DaliInstallation:
    """Import DALI and return what is to be known of it.

    Raises:
        DaliError: There is none, where it cannot be imported, and where it is too old.
    """
    dali = _import("nvidia.dali")
    from packaging.version import Version  # the command line starts without it, and says so

    try:
        version = str(dali.__version__)
        if Version(version) < Version(MIN_RELEASE):
            raise DaliError(
                f"DALI {version} is older than {MIN_RELEASE}, which the operators need; update it "
                f"with `{install_command('dali', '--upgrade')}`"
            )
        backend, sysconfig = _import("nvidia.dali.backend"), _import("nvidia.dali.sysconfig")
        return DaliInstallation(
            version=version,
            identity=f"{dali.__git_sha__}-cuda{dali.__cuda_version__}",
            cxx11_abi=int(backend.GetCxx11AbiFlag()),
            include_folder=Path(sysconfig.get_include_dir()),
            library_folder=Path(sysconfig.get_lib_dir()),
        )
    except AttributeError as error:  # what a removal or an update has left half
        raise _broken(error) from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in ("nvidia", "nvidia.dali"):
            raise DaliError(
                f"DALI is not installed; install it with `{install_command('dali')}`"
            ) from error
        raise _broken(error) from error
    except (ImportError, OSError) as error:
        raise _broken(error) from error


def _broken(error: Exception) -> DaliError:
    return DaliError(
        f"DALI is there, but cannot be imported ({error}); install it again with what it needs: "
        f"`{install_command('dali', '--force-reinstall')}`"
    )


LIBRARY_NAME = "libendcap_dali.so"
CORE_NAME = "libendcap_c.so"
# What a copy of the operators' library has next to it; the last one is there in builds for GPUs.
NEIGHBOUR_NAMES = (
    CORE_NAME,
    *(f"libendcap_{name}.so" for name in ("jpeg", "png", "webp", "gif", "cuda")),
)

_C_API = Path("endcap/c_api.h")
_WORK_TREE = Path(__file__).parents[3]  # in an editable installation


def find_sources() -> Path:
    """Return the folder of the operators' sources; raise DaliError where it is not there."""
    if (_WORK_TREE / "backends" / "dali" / "built_for.cc").is_file():
        return _WORK_TREE / "backends" / "dali"
    return find_in_package("dali/sources", "the sources of the DALI operators are", DaliError)


def find_include_folder() -> Path:
    """Return the folder that `endcap/c_api.h` is in; raise DaliError where it is not there."""
    if (_WORK_TREE / "csrc" / "include" / _C_API).is_file():
        return _WORK_TREE / "csrc" / "include"
    header = find_in_package("include" / _C_API, "the header endcap/c_api.h is", DaliError)
    return header.parents[1]


def find_core() -> Path:
    """Return the core's C library, links followed; raise DaliError where it is not there.

    A server's Python has the package by a link in a new folder at each start, and must find what
    was built for this file.
    """
    return find_in_package(CORE_NAME, f"{CORE_NAME} is", DaliError).resolve()


def c_abi_of_header() -> int:
    """Return ENDCAP_C_ABI of the header that the operators are compiled with."""
    header = find_include_folder() / _C_API
    found = re.search(r"^#define ENDCAP_C_ABI (\d+)", header.read_text(), re.MULTILINE)
    assert found, header
    return int(found[1])
