"""Regions of system shared memory, leases on them, and abandoned regions, without a server."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tritonclient.http as tritonclient

from endcap.client import regions
from endcap.client.errors import RequestError
from endcap.client.regions import FOLDER, Lease, Region, is_abandoned, make_name, remove_abandoned
from endcap.errors import InvalidArgumentError, OutOfMemoryError
from tests.triton.shared_memory_models import own_files

BYTES = 1 << 16


@pytest.fixture
def region() -> Iterator[Region]:
    made = Region(BYTES)
    yield made
    made.remove()
    assert not (FOLDER / made.name).exists()


@pytest.fixture
def lease(region: Region) -> Lease:
    return Lease(region, tritonclient)


def region_part(tensor: Any) -> tuple[str, int, int]:
    """The region, the offset and the length that a request names for a tensor."""
    given = tensor._get_tensor()["parameters"]
    names = ("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size")
    region, offset, byte_size = (given.get(name, 0) for name in names)
    return region, offset, byte_size


def contents(region: Region, tensor: Any) -> bytes:
    """What another process finds in the file."""
    _, offset, byte_size = region_part(tensor)
    return (FOLDER / region.name).read_bytes()[offset : offset + byte_size]


def response(shape: tuple[int, ...], datatype: str = "FP32") -> Any:
    return SimpleNamespace(get_output=lambda name: {"datatype": datatype, "shape": shape})


def test_a_region_is_a_file_that_only_its_owner_can_read(region: Region) -> None:
    status = (FOLDER / region.name).stat()
    assert (status.st_size, status.st_mode & 0o777) == (BYTES, 0o600)
    assert status.st_blocks * 512 >= BYTES  # reserved, not only promised
    assert region.registration["key"] == f"/{region.name}"


def test_tensors_are_put_at_aligned_places(region: Region, lease: Lease) -> None:
    first = np.arange(5, dtype=np.uint8)
    second = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]  # not contiguous
    inputs = [lease.put("a", first), lease.put("b", second)]
    assert [(each.name(), each.shape(), each.datatype()) for each in inputs] == [
        ("a", [5], "UINT8"), ("b", [4, 3], "FP32")
    ]  # fmt: skip
    assert [region_part(each) for each in inputs] == [(region.name, 0, 5), (region.name, 64, 48)]
    assert [contents(region, each) for each in inputs] == [first.tobytes(), second.tobytes()]
    view, tensor = lease.empty("images", (2, 3), np.float32)
    view[:] = 7
    assert contents(region, tensor) == view.tobytes()


def test_encoded_elements_have_their_length_before_them(region: Region, lease: Lease) -> None:
    tensor = lease.put_encoded("encoded", [b"abc", b"", memoryview(b"de")], (3, 1))
    assert (tensor.shape(), tensor.datatype()) == ([3, 1], "BYTES")
    assert contents(region, tensor) == b"\3\0\0\0abc\0\0\0\0\2\0\0\0de"
    with pytest.raises(InvalidArgumentError, match="1 elements"):
        lease.put_encoded("encoded", [b"abc"], (2, 1))


def test_what_does_not_fit_is_refused_with_the_sizes(lease: Lease) -> None:
    lease.put("a", np.zeros(10, np.uint8))
    with pytest.raises(InvalidArgumentError) as caught:
        lease.put("images", np.zeros(BYTES, np.uint8))
    for number in (BYTES, BYTES - 64, BYTES + 64):
        assert str(number) in str(caught.value)
    assert lease.put("rest", np.zeros(BYTES - 64, np.uint8)).shape() == [BYTES - 64]


@pytest.mark.parametrize("dtype", [">f4", ">i8", "c8", "M8[s]", "U5", "O"])
def test_a_type_that_triton_lacks_is_refused_and_takes_no_room(lease: Lease, dtype: str) -> None:
    for use in (
        lambda: lease.put("images", np.zeros(4, dtype)),
        lambda: lease.empty("images", (4,), np.dtype(dtype)),
        lambda: lease.output("images", (4,), np.dtype(dtype)),
    ):
        with pytest.raises(InvalidArgumentError, match="images is of type"):
            use()
    lease.put("all", np.zeros(BYTES, np.uint8))


def test_an_output_is_read_without_a_copy(region: Region, lease: Lease) -> None:
    output = lease.output("head", (2, 100), np.float32)
    assert region_part(output) == (region.name, 0, 800)
    view = lease.read("head", response((2, 50)))
    assert (view.shape, view.dtype) == ((2, 50), np.float32)
    with (FOLDER / region.name).open("r+b") as file:  # as the server writes
        file.write(np.float32(3.5).tobytes())
    assert view[0, 0] == 3.5
    passed_on = lease.as_input("head", response((2, 50)), "logits")
    assert (passed_on.name(), passed_on.shape()) == ("logits", [2, 50])
    assert region_part(passed_on) == (region.name, 0, 400)
    assert lease.read("head", response((0, 50))).shape == (0, 50)
    assert np.from_dlpack(view)[0, 0] == 3.5


@pytest.mark.parametrize(
    "told",
    [
        SimpleNamespace(get_output=lambda name: None),
        response((2, 101)),
        response((-1, 2)),
        response((2, 2), "BYTES"),
        response((2, 2), "f4,f4"),
    ],
)
def test_an_output_larger_than_reserved_is_refused(lease: Lease, told: Any) -> None:
    lease.output("head", (2, 100), np.float32)
    with pytest.raises(RequestError, match="the server's response cannot be read"):
        lease.read("head", told)


def test_a_lease_that_has_ended_gives_nothing(lease: Lease) -> None:
    lease.output("head", (1,), np.float32)
    lease.end()
    for use in (
        lambda: lease.put("a", np.zeros(1)),
        lambda: lease.as_input("head", response((1,)), "logits"),
        lambda: lease.sending().__enter__(),
        lambda: lease.read("head", response((1,))),
    ):
        with pytest.raises(InvalidArgumentError, match="ended"):
            use()


@pytest.mark.parametrize("keep", [lambda view: view[1:].reshape(-1, 1), np.from_dlpack])
def test_views_are_seen_and_outlive_the_region(keep: Any) -> None:
    region = Region(BYTES)
    lease = Lease(region, tritonclient)
    view, _ = lease.empty("a", (4,), np.int32)
    view[:] = 5
    kept = keep(view)
    del view
    lease.end()
    region.remove()
    views = region.views
    del region, lease
    gc.collect()
    assert (kept == 5).all()
    assert views() is not None
    del kept
    assert views() is None


@pytest.mark.parametrize(
    ("error", "retired"),
    [
        (RequestError("invalid_argument", "no"), False),
        (RequestError("unavailable", "no region", region_lost=True), False),
        (RequestError("unavailable", "busy", retry_after_s=1.0), False),
        (RequestError("unavailable", "gone"), True),
        (RequestError("timeout", "late"), True),
        (RequestError("internal", "?"), True),
        (KeyboardInterrupt(), True),
    ],
)
def test_a_region_whose_request_may_not_have_ended_is_retired(
    region: Region, lease: Lease, error: BaseException, retired: bool
) -> None:
    with lease.sending():
        pass
    with pytest.raises(type(error)), lease.sending():
        raise error
    lease.end()
    assert region.is_retired == retired


# --- abandoned regions ------------------------------------------------------------------------

KILLED = """
import os
from endcap.client.regions import Region
print(Region(4096).name, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_region_of_a_dead_process_is_removed(region: Region) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.read().decode().strip()
        assert (FOLDER / name).exists()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_abandoned(name)  # a zombie's
        remove_abandoned()
    assert not (FOLDER / name).exists()
    assert (FOLDER / region.name).exists()


def abandoned_name(**changes: str) -> str:
    """The name of a region of an earlier process with this one's id."""
    parts = zip(("user", "space", "pid", "start", "n"), make_name().split("-")[1:], strict=True)
    return "-".join(["endcap", *{**dict(parts), "start": "1", **changes}.values()])


def test_what_no_pool_of_this_user_made_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "FOLDER", tmp_path)
    files = {
        tmp_path / name: b"theirs"
        for name in (
            abandoned_name(user=str(os.geteuid() + 1)),
            abandoned_name(space="1"),  # another container's process
            abandoned_name(n="1x"),
            abandoned_name(n="1-1"),
            "endcap-abcd1234-triton_python_backend_shm_region_1",  # of a server's Python models
            "psm_1a2b3c",
        )
    }
    if os.geteuid() == 0:
        files[tmp_path / abandoned_name()] = b"another user's"
    for file, content in files.items():
        file.write_bytes(content)
        if content != b"theirs":
            os.chown(file, 65534, 65534)
    link, folder, ours = (tmp_path / abandoned_name() for _ in range(3))
    link.symlink_to(tmp_path / "psm_1a2b3c")
    folder.mkdir()
    ours.write_bytes(b"")
    remove_abandoned()
    assert {file: file.read_bytes() for file in files} == files
    assert (link.is_symlink(), folder.is_dir(), ours.exists()) == (True, True, False)


# --- room -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 50, 1 << 70])
def test_a_full_dev_shm_is_an_error_and_leaves_no_file(size: int) -> None:
    before = own_files()
    with pytest.raises(OutOfMemoryError, match=r"/dev/shm has no room for \d+ bytes"):
        Region(size)
    assert own_files() == before


def test_descriptors_and_mappings_go_with_the_region() -> None:
    def counts() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text()
        return len(os.listdir("/proc/self/fd")), maps.count(f"{FOLDER}/endcap-")

    before = counts()
    for _ in range(50):
        region = Region(4096)
        Lease(region, tritonclient).put("a", np.zeros(10))
        region.remove()
    del region
    gc.collect()
    assert counts() == before
