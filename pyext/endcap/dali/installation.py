"""The DALI that is installed: its release, and how code is compiled against it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from endcap.dali.errors import DaliError

OLDEST = "1.53"  # the oldest release that the operators were tried with


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
    folder: Path
    include_folder: Path
    library_folder: Path


def find_dali() -> DaliInstallation:
    """Import DALI and return what is to be known of it.

    Raises:
        DaliError: There is none, where it cannot be imported, and where it is too old.
    """
    dali = _import("nvidia.dali")
    try:
        version = str(dali.__version__)
        check_release(version)
        backend, sysconfig = _import("nvidia.dali.backend"), _import("nvidia.dali.sysconfig")
        return DaliInstallation(
            version=version,
            identity=f"{dali.__git_sha__}-cuda{dali.__cuda_version__}",
            cxx11_abi=int(backend.GetCxx11AbiFlag()),
            folder=Path(str(dali.__file__)).parent,
            include_folder=Path(sysconfig.get_include_dir()),
            library_folder=Path(sysconfig.get_lib_dir()),
        )
    except AttributeError as error:  # what a removal or an update has left half
        raise _broken(error) from error


def check_release(version: str) -> None:
    """Raise DaliError for a release that is older than OLDEST."""
    from packaging.version import Version  # the command line starts without it, and says so

    if Version(version) < Version(OLDEST):
        raise DaliError(
            f"DALI {version} is older than {OLDEST}, which the operators need; update it with "
            "`pip install --upgrade 'endcap[dali]'`"
        )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in ("nvidia", "nvidia.dali"):
            raise DaliError(
                "DALI is not installed; install it with `pip install 'endcap[dali]'`"
            ) from error
        raise _broken(error) from error
    except (ImportError, OSError) as error:
        raise _broken(error) from error


def _broken(error: Exception) -> DaliError:
    return DaliError(
        f"DALI is there, but cannot be imported ({error}); install it again with what it needs: "
        "`pip install --force-reinstall 'endcap[dali]'`"
    )
