"""How much memory a pool's regions may take, before any is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from endcap.client.regions.region import FOLDER, check_capacity
from endcap.errors import OutOfMemoryError

MIB = 1 << 20


def meminfo(folder: Path, available_mib: int) -> Path:
    path = folder / "meminfo"
    path.write_text(f"MemTotal: 9 kB\nMemAvailable:   {available_mib * 1024} kB\nBuffers: 1 kB\n")
    return path


def test_half_of_what_is_available_may_be_taken(tmp_path: Path) -> None:
    told = meminfo(tmp_path, 8)
    check_capacity(4, MIB, folder=tmp_path, meminfo=told)
    with pytest.raises(OutOfMemoryError, match="5 shared-memory regions of 1048576 bytes") as found:
        check_capacity(5, MIB, folder=tmp_path, meminfo=told)
    for said in ("5 MiB in all", "8 MiB are available", "50%", "--region-bytes", "batch="):
        assert said in str(found.value)


def test_the_folder_is_the_other_limit(tmp_path: Path) -> None:
    status = os.statvfs(FOLDER)
    free = status.f_bavail * status.f_frsize
    told = meminfo(tmp_path, 8 * free // MIB)
    with pytest.raises(OutOfMemoryError, match=f"do not fit into {FOLDER}, where .*--shm-size"):
        check_capacity(4, free // 2, meminfo=told)


def test_a_kernel_that_does_not_tell_is_no_obstacle(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9 kB\n")
    check_capacity(2, MIB, folder=tmp_path, meminfo=told)


def test_this_machine_is_asked(tmp_path: Path) -> None:
    check_capacity(1, 1)
    with pytest.raises(OutOfMemoryError):
        check_capacity(1 << 20, 1 << 40)
