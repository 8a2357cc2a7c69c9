"""Regions of system shared memory and leases on them, without a server."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from endcap.client.calls import InputTensor, Response, SharedOutput, SharedSlice
from endcap.client.errors import RequestError
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import FOLDER, SystemRegion, is_ours, new_name
from endcap.errors import InvalidArgumentError, UnsupportedError

BYTES = 1 << 16


@pytest.fixture
def region() -> Iterator[SystemRegion]:
    made = SystemRegion(BYTES)
    yield made
    made.remove()
    assert not (FOLDER / made.name).exists()


@pytest.fixture
def lease(region: SystemRegion) -> Lease:
    return Lease(region)


def contents(region: SystemRegion, part: SharedSlice) -> bytes:
    """What another process finds in the file."""
    with (FOLDER / region.name).open("rb") as file:
        file.seek(part.offset)
        return file.read(part.byte_size)


def part_of(tensor: InputTensor) -> SharedSlice:
    assert isinstance(tensor.data, SharedSlice)
    return tensor.data


def response(name: str, shape: tuple[int, ...], datatype: str = "FP32") -> Response:
    return Response({}, {name: SharedOutput(shape, datatype)})


def test_a_region_is_a_file_that_only_its_owner_can_read(region: SystemRegion) -> None:
    status = (FOLDER / region.name).stat()
    assert (status.st_size, status.st_mode & 0o777) == (BYTES, 0o600)
    assert status.st_blocks * 512 >= BYTES  # reserved, not only promised
    assert is_ours(region.name)
    assert region.registration()["key"] == f"/{region.name}"


def test_names_differ_and_are_told_from_those_of_others() -> None:
    assert len({new_name(1) for _ in range(1000)}) == 1000
    for other in ("endcap-4f2a_x9b-triton_python_backend_shm_region_1", "psm_1a2b3c", "endcap-"):
        assert not is_ours(other)
    assert not is_ours(new_name(1) + "x")


def test_tensors_are_put_at_aligned_places(region: SystemRegion, lease: Lease) -> None:
    first = np.arange(5, dtype=np.uint8)
    second = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]  # not contiguous
    inputs = [lease.put("a", first), lease.put("b", second)]
    assert [(i.name, i.shape, i.datatype) for i in inputs] == [
        ("a", (5,), "UINT8"),
        ("b", (4, 3), "FP32"),
    ]
    assert part_of(inputs[0]) == SharedSlice(region.name, 0, 5)
    assert part_of(inputs[1]) == SharedSlice(region.name, 64, 48)
    assert contents(region, part_of(inputs[0])) == first.tobytes()
    assert contents(region, part_of(inputs[1])) == second.tobytes()
    assert lease.free_bytes == BYTES - 128


def test_encoded_elements_have_their_length_before_them(region: SystemRegion, lease: Lease) -> None:
    tensor = lease.put_encoded("encoded", [b"abc", b"", memoryview(b"de")], (3, 1))
    assert (tensor.shape, tensor.datatype) == ((3, 1), "BYTES")
    assert contents(region, part_of(tensor)) == b"\3\0\0\0abc\0\0\0\0\2\0\0\0de"
    with pytest.raises(InvalidArgumentError, match="1 elements"):
        lease.put_encoded("encoded", [b"abc"], (2, 1))


def test_an_empty_tensor_is_filled_in_place(region: SystemRegion, lease: Lease) -> None:
    view, tensor = lease.empty("images", (2, 3), np.float32)
    view[:] = 7
    assert contents(region, part_of(tensor)) == view.tobytes()


def test_a_tensor_without_elements_travels_in_the_request(lease: Lease) -> None:
    tensor = lease.put("rois", np.empty((0, 4), np.float32))
    assert isinstance(tensor.data, np.ndarray)
    assert tensor.shape == (0, 4)


def test_what_does_not_fit_is_refused_with_the_sizes(lease: Lease) -> None:
    lease.put("a", np.zeros(10, np.uint8))
    with pytest.raises(InvalidArgumentError) as caught:
        lease.put("images", np.zeros(BYTES, np.uint8))
    for number in (BYTES, BYTES - 64, BYTES + 64):
        assert str(number) in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="objects"):
        lease.put("a", np.array([b"x"], np.object_))
    with pytest.raises(UnsupportedError, match="BYTES"):
        lease.output("labels", (1,), np.dtype(object))
    assert lease.put("rest", np.zeros(BYTES - 64, np.uint8)).shape == (BYTES - 64,)


@pytest.mark.parametrize("dtype", [">f4", ">i8", "c8", "M8[s]", "U5"])
def test_a_type_that_triton_lacks_is_refused_and_takes_no_room(lease: Lease, dtype: str) -> None:
    for use in (
        lambda: lease.put("images", np.zeros(4, dtype)),
        lambda: lease.empty("images", (4,), np.dtype(dtype)),
        lambda: lease.output("images", (4,), np.dtype(dtype)),
    ):
        with pytest.raises(InvalidArgumentError, match=r"type|byte"):
            use()
    assert lease.free_bytes == BYTES


def test_an_output_is_read_without_a_copy(region: SystemRegion, lease: Lease) -> None:
    output = lease.output("head", (2, 100), np.float32)
    assert output.shared == SharedSlice(region.name, 0, 800)
    view = lease.read(output, response("head", (2, 50)))
    assert (view.shape, view.dtype) == ((2, 50), np.float32)
    lease.view(0, 4)[:] = np.float32(3.5).tobytes()  # as the server writes
    assert view[0, 0] == 3.5
    passed_on = lease.as_input(output, "logits", response("head", (2, 50)))
    assert passed_on == InputTensor("logits", (2, 50), "FP32", SharedSlice(region.name, 0, 400))
    assert lease.read(output, response("head", (0, 50))).shape == (0, 50)
    assert np.from_dlpack(view)[0, 0] == 3.5


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (Response({}), "does not say"),
        (response("head", (2, 101)), "808 bytes, for 800 reserved"),
        (response("head", (-1, 2)), "no array"),
        (response("head", (2, 2), "O"), "no array"),
        (response("head", (2, 2), "BYTES"), "no array"),
        (response("head", (2, 2), "f4,f4"), "no array"),
    ],
)
def test_an_output_larger_than_reserved_is_refused(
    lease: Lease, told: Response, message: str
) -> None:
    output = lease.output("head", (2, 100), np.float32)
    with pytest.raises(RequestError, match=message):
        lease.read(output, told)


def test_a_lease_that_has_ended_gives_nothing(lease: Lease) -> None:
    output = lease.output("head", (1,), np.float32)
    assert lease.end() is None
    for use in (
        lambda: lease.put("a", np.zeros(1)),
        lambda: lease.as_input(output, "logits", response("head", (1,))),
        lambda: lease.sending().__enter__(),
        lambda: lease.read(output, response("head", (1,))),
        lambda: lease.view(0, 1),
    ):
        with pytest.raises(InvalidArgumentError, match="ended"):
            use()


@pytest.mark.parametrize("kind", ["array", "slice", "memoryview", "dlpack"])
def test_views_are_seen_and_outlive_the_region(kind: str) -> None:
    region = SystemRegion(BYTES)
    lease = Lease(region)
    view, _ = lease.empty("a", (4,), np.int32)
    view[:] = 5
    kept = {
        "array": lambda lease, view: view,
        "slice": lambda lease, view: view[1:].reshape(-1, 1),
        "memoryview": lambda lease, view: lease.view(0, 16),
        "dlpack": lambda lease, view: np.from_dlpack(view),
    }[kind](lease, view)
    del view
    living = lease.end()
    assert living is not None
    region.remove()
    del region, lease
    gc.collect()
    assert bytes(kept)[:4] == b"\5\0\0\0"
    assert living() is not None
    del kept
    gc.collect()
    assert living() is None


def test_views_outlive_everything_up_to_the_end_of_the_program() -> None:
    program = """
import os
import numpy as np
from endcap.client.regions.region import SystemRegion
from endcap.client.regions.lease import Lease
region = SystemRegion(1 << 20)
view, _ = Lease(region).empty("a", (1 << 18,), np.float32)
region.remove()
class Last:
    def __del__(self, view=view, write=os.write):
        view.fill(1)
        write(1, b"%g" % view.item(-1))
last = Last()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")


@pytest.mark.parametrize(
    ("error", "has_response"),
    [
        (None, True),
        (RequestError("invalid_argument", "no"), True),
        (RequestError("unavailable", "no region", region_lost=True), True),
        (InvalidArgumentError("never sent"), True),
        (RequestError("unavailable", "gone"), False),
        (RequestError("timeout", "late"), False),
        (RequestError("internal", "?"), False),
        (SystemExit(143), False),
    ],
)
def test_only_a_response_ends_the_use_by_the_server(
    lease: Lease, error: BaseException | None, has_response: bool
) -> None:
    if error is None:
        with lease.sending():
            assert not lease.has_all_responses
    else:
        with pytest.raises(type(error)), lease.sending():
            raise error
    assert lease.has_all_responses == has_response
