"""Files of /dev/shm: owners, removal of abandoned ones, and forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from endcap.client.regions import region
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import (
    FOLDER,
    SystemRegion,
    new_name,
    new_region_file,
    remove_abandoned,
    remove_if_abandoned,
)
from endcap.errors import OutOfMemoryError

OWNER = """
import sys
from endcap.client.regions.region import SystemRegion
region = SystemRegion(4096)
print(region.name, flush=True)
sys.stdin.read()
"""

# Makes files and lets go of them while others sweep; one that is gone while it is held was taken
# for an abandoned one.
WORKER = """
import sys, time
from endcap.client.regions.region import new_region_file, remove_abandoned
taken, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    file = new_region_file()
    remove_abandoned()
    assert file.path.exists()
    file.remove()
    taken += 1
print(taken)
"""


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process, and the name of the region that it holds."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        yield process, name
        process.kill()
    (FOLDER / name).unlink(missing_ok=True)


def in_child(work: Callable[[], None]) -> int:
    """Returns the exit status of a forked child that does the work, then ends at once."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_file_of_a_living_process_is_left(owner: tuple[subprocess.Popen[str], str]) -> None:
    _, name = owner
    assert name not in remove_abandoned()
    assert not remove_if_abandoned(name)
    assert (FOLDER / name).exists()


def test_a_file_of_a_killed_process_is_swept(owner: tuple[subprocess.Popen[str], str]) -> None:
    process, name = owner
    process.kill()
    process.wait()
    remove_abandoned()
    assert not (FOLDER / name).exists()


def test_files_of_others_are_left() -> None:
    others = [
        "endcap-abcd1234-triton_python_backend_shm_region_1",  # a launch of `endcap serve`
        "triton_python_backend_shm_region_test",
        "psm_endcap_test",
        f"{new_name(1)}-1",
        "endcap-0123456789abcdef0123456789abcdef",  # the form of a pool's name
        new_name(1),  # of another file
    ]
    for name in others:
        (FOLDER / name).write_bytes(b"theirs")
    try:
        remove_abandoned()
        assert all((FOLDER / name).read_bytes() == b"theirs" for name in others)
    finally:
        for name in others:
            (FOLDER / name).unlink()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs")
    link = FOLDER / new_name(1)
    link.symlink_to(target)
    try:
        assert not remove_if_abandoned(link.name)
        assert link.is_symlink()
        assert target.exists()
    finally:
        link.unlink()


def test_an_unlocked_file_is_removed() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    file = new_region_file()
    name = file.name
    del file
    gc.collect()
    assert not (FOLDER / name).exists()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_sweeps_and_new_files_at_once_do_not_lose_any() -> None:
    command = [sys.executable, "-c", WORKER, "3"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    said = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers)
    assert sum(int(each) for each in said) > 1000  # they did compete


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_left() -> None:
    file = FOLDER / new_name(1)
    file.write_bytes(b"theirs")
    os.chown(file, 65534, 65534)
    try:
        assert not remove_if_abandoned(file.name)
        assert file.name not in remove_abandoned()
        assert file.read_bytes() == b"theirs"
    finally:
        file.unlink()


def test_a_child_cannot_remove_the_parents_region() -> None:
    region = SystemRegion(4096)
    try:
        assert in_child(region.remove) == 0
        assert (FOLDER / region.name).exists()
        assert not remove_if_abandoned(region.name)
    finally:
        region.remove()


def test_a_child_does_not_keep_the_lock_of_a_dead_parent() -> None:
    program = """
import os, sys
from endcap.client.regions.region import SystemRegion
region = SystemRegion(4096)
ready, wait = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(wait[1])
    os.write(ready[1], b"x")
    os.read(wait[0], 1)  # until the test lets go
    os._exit(0)
os.read(ready[0], 1)
print(region.name, wait[1], flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name, descriptor = process.stdout.readline().split()
        # The child waits on a pipe whose other end this process holds from now on.
        kept = os.open(f"/proc/{process.pid}/fd/{descriptor}", os.O_WRONLY)
        try:
            assert not remove_if_abandoned(name)
            process.kill()
            process.wait()
            assert remove_if_abandoned(name)
            assert not (FOLDER / name).exists()
        finally:
            os.close(kept)
            (FOLDER / name).unlink(missing_ok=True)


def test_a_child_reads_the_memory_that_its_parent_had() -> None:
    region = SystemRegion(4096)
    exporter = region.exporter()
    exporter[7] = 9

    def check() -> None:
        region.remove()
        assert exporter[7] == 9

    try:
        assert in_child(check) == 0
    finally:
        region.remove()


@pytest.mark.parametrize("size", [1 << 50, 1 << 62, 1 << 70])
def test_a_full_dev_shm_is_an_error_and_leaves_no_file(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name(1)
    monkeypatch.setattr(region, "new_name", lambda _: name)
    with pytest.raises(OutOfMemoryError, match=r"bytes does not fit into /dev/shm, where \d+ MiB"):
        SystemRegion(size)
    assert not (FOLDER / name).exists()


def test_descriptors_and_mappings_go_with_the_region() -> None:
    def counts() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text()
        return len(os.listdir("/proc/self/fd")), maps.count(f"{FOLDER}/endcap-")

    before = counts()
    for _ in range(50):
        region = SystemRegion(4096)
        Lease(region).put("a", np.zeros(10))
        region.remove()
    del region
    gc.collect()
    assert counts() == before
