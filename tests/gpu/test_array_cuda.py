"""CudaArray: what it tells, how it is downloaded, and how other libraries take it over."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import endcap
from endcap import _core
from tests.support.cuda_inputs import on_gpu

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def taken_over(capsule: Any, stream: int = 0) -> np.ndarray:
    return _core.CudaTensor.from_dlpack(capsule, 0, stream).to_numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 5), (1, 1)])
def test_what_an_array_is(shape: tuple[int, ...], dtype: str) -> None:
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    array = on_gpu(values)
    assert array.shape == shape
    assert array.ndim == len(shape)
    assert array.dtype == values.dtype
    assert array.size == values.size
    assert array.nbytes == values.nbytes
    assert array.device == "cuda:0"
    assert array.stream == 0
    assert len(array) == shape[0]
    copy = array.to_numpy()
    assert copy.dtype == values.dtype
    np.testing.assert_array_equal(copy, values)
    np.testing.assert_array_equal(taken_over(array.__dlpack__()), values)


def test_nothing_copies_it_to_the_host_unasked() -> None:
    for convert in (np.asarray, np.array, lambda array: np.add(array, 1)):
        with pytest.raises(TypeError, match="to_numpy"):
            convert(on_gpu(VALUES))


def test_dlpack_hands_over_the_memory_itself() -> None:
    array = on_gpu(VALUES)
    assert array.__dlpack_device__() == (2, 0)
    pointer = array.__cuda_array_interface__["data"][0]
    for stream in (None, 1, 2, -1):
        taken = _core.CudaTensor.from_dlpack(array.__dlpack__(stream=stream), 0, 0)
        assert taken.pointer == pointer
        np.testing.assert_array_equal(taken.to_numpy(), VALUES)


def test_memory_lives_as_long_as_its_last_consumer() -> None:
    array = on_gpu(VALUES)
    capsule = array.__dlpack__()
    taken = _core.CudaTensor.from_dlpack(array.__dlpack__(), 0, 0)
    del array
    gc.collect()
    np.testing.assert_array_equal(taken.to_numpy(), VALUES)
    del taken
    np.testing.assert_array_equal(taken_over(capsule), VALUES)


def test_a_capsule_is_taken_over_once() -> None:
    capsule = on_gpu(VALUES).__dlpack__()
    taken_over(capsule)
    with pytest.raises(endcap.InvalidArgumentError, match="used before"):
        taken_over(capsule)


def test_a_copy_on_the_cpu_by_dlpack() -> None:
    class OnCpu:
        def __dlpack__(self, **options: Any) -> Any:
            return on_gpu(VALUES).__dlpack__(dl_device=(1, 0))

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    np.testing.assert_array_equal(np.from_dlpack(OnCpu()), VALUES)


@pytest.mark.parametrize(
    "options",
    [{"stream": 0}, {"copy": True}, {"dl_device": (2, 9)}, {"dl_device": (1, 0), "copy": False}],
)
def test_what_dlpack_cannot_have(options: dict[str, Any]) -> None:
    with pytest.raises(BufferError):
        on_gpu(VALUES).__dlpack__(**options)


def test_the_cuda_array_interface() -> None:
    array = on_gpu(VALUES)
    interface = array.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (2, 3, 4)
    assert interface["typestr"] == "<f4"
    assert interface["strides"] is None
    assert interface["stream"] == 1  # the legacy default stream; 0 is not allowed
    assert interface["data"][0] % 256 == 0
    assert interface["data"][1] is False


def test_borrowed_memory_keeps_its_owner() -> None:
    array = on_gpu(VALUES)
    interface = array.__cuda_array_interface__
    pointer = interface["data"][0]
    borrowed = _core.CudaTensor.borrow(pointer, "<f4", [2, 3, 4], [48, 16, 4], 0, 0, array)
    del array
    gc.collect()
    assert borrowed.contiguous
    np.testing.assert_array_equal(borrowed.to_numpy(), VALUES)
