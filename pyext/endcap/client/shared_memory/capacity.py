"""Whether a pool's regions fit into this machine, before the first of them is made."""

from __future__ import annotations

import os
from pathlib import Path

from endcap.client.shared_memory.names import FOLDER
from endcap.errors import OutOfMemoryError

_MEMINFO = Path("/proc/meminfo")
# The regions' pages are reserved for good, and /dev/shm may be as large as all memory. The rest is
# for what the server, this program and others take while they work: without it the kernel ends one
# of them, the server first, which is the largest.
_SHARE_OF_AVAILABLE = 0.5
_MIB = 1 << 20
_ADVICE = (
    "take fewer or smaller ones: less regions= or region_bytes= (--region-bytes), or with their "
    "defaults less concurrency= or batch="
)


def check_capacity(
    regions: int, region_bytes: int, *, folder: Path = FOLDER, meminfo: Path = _MEMINFO
) -> None:
    """Raises OutOfMemoryError where so many regions need more than there is to give.

    folder: of the regions' files. meminfo: as proc(5) describes it.
    """
    needed = regions * region_bytes
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise OutOfMemoryError(
            f"{_regions(regions, region_bytes)} do not fit into {folder}, where {free // _MIB} MiB "
            f"are free; {_ADVICE}, or make it larger (in a container: --shm-size)"
        )
    available = _available_bytes(meminfo)
    if available is not None and needed > _SHARE_OF_AVAILABLE * available:
        raise OutOfMemoryError(
            f"{_regions(regions, region_bytes)} would leave too little memory to the server: "
            f"{available // _MIB} MiB are available, of which regions may take "
            f"{_SHARE_OF_AVAILABLE:.0%}; {_ADVICE}"
        )


def _regions(regions: int, region_bytes: int) -> str:
    needed = -(-regions * region_bytes // _MIB)
    return f"{regions} shared-memory regions of {region_bytes} bytes each, {needed} MiB in all,"


def _available_bytes(meminfo: Path) -> int | None:
    """Returns MemAvailable, which kernels before 3.14 do not tell."""
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None
