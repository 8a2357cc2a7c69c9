"""What of this package the operators are made from and linked to."""

from __future__ import annotations

import re
from pathlib import Path

import endcap
from endcap.dali.errors import DaliError

LIBRARY_NAME = "libendcap_dali.so"
CORE_NAME = "libendcap_c.so"
# What a copy of the operators' library has beside it; the last one is there in builds for GPUs.
NEIGHBOUR_NAMES = (CORE_NAME, "libendcap_jpeg.so", "libendcap_cuda.so")

_C_API = Path("endcap/c_api.h")
_WORK_TREE = Path(__file__).parents[3]  # in an editable installation


def find_sources() -> Path:
    """Return the folder of the operators' sources; raise DaliError where it is not there."""
    if (_WORK_TREE / "backends" / "dali" / "CMakeLists.txt").is_file():
        return _WORK_TREE / "backends" / "dali"
    return _find(Path("dali/sources"), "the sources of the DALI operators are")


def find_include_folder() -> Path:
    """Return the folder that `endcap/c_api.h` is in; raise DaliError where it is not there."""
    if (_WORK_TREE / "csrc" / "include" / _C_API).is_file():
        return _WORK_TREE / "csrc" / "include"
    return _find("include" / _C_API, "the header endcap/c_api.h is").parents[1]


def find_core() -> Path:
    """Return the core's C library; raise DaliError where it is not there."""
    return _find(Path(CORE_NAME), f"{CORE_NAME} is")


def find_packaged() -> Path | None:
    """Return the operators' library that came with the package, None without one."""
    places = [Path(root) / LIBRARY_NAME for root in endcap.__path__]
    return next((place for place in places if place.is_file()), None)


def c_abi_of_header() -> int:
    """Return ENDCAP_C_ABI of the header that the operators are compiled with."""
    header = find_include_folder() / _C_API
    found = re.search(r"^#define ENDCAP_C_ABI (\d+)", header.read_text(), re.MULTILINE)
    assert found, header
    return int(found[1])


def _find(name: Path, what: str) -> Path:
    # An editable install has two package folders: the sources, and what was built.
    for root in endcap.__path__:
        if (Path(root) / name).exists():
            return Path(root) / name
    raise DaliError(
        f"{what} not in this installation of endcap (searched {', '.join(endcap.__path__)}); "
        "reinstall it with `pip install --force-reinstall --no-deps endcap`"
    )
