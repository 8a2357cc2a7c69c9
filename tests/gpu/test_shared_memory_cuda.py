"""Regions of a GPU's memory: what is written, what is read, and for how long."""

from __future__ import annotations

import gc
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tritonclient.http as tritonclient

import endcap
from endcap.client.regions import KINDS, Lease
from endcap.errors import InvalidArgumentError
from tests.gpu.pictures import FILES

if os.environ.get("ENDCAP_REQUIRE_CUDA") != "1":
    pytest.importorskip("cuda.bindings.runtime")

BYTES = 1 << 20
_PLACE = ("shared_memory_offset", "shared_memory_byte_size")


@pytest.fixture
def region(real_gpu: endcap.CudaState) -> Any:
    made = KINDS["cuda"](BYTES)
    yield made
    made.remove()


def read_back(lease: Lease, tensor: Any) -> np.ndarray:
    """The tensor as another user of the region finds it."""
    place = {each: tensor._get_tensor()["parameters"].get(each, 0) for each in _PLACE}
    lease.outputs["same"] = place["shared_memory_offset"], place["shared_memory_byte_size"]
    told = {"datatype": tensor.datatype(), "shape": tensor.shape()}
    result = SimpleNamespace(get_output=lambda name: told)
    return np.asarray(lease.read("same", result).to_numpy())


def test_arrays_of_the_host_are_copied_to_the_gpu(region: Any) -> None:
    lease = Lease(region, tritonclient)
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    lease.put("before", array[:1])
    tensor = lease.put("a", array[:, ::-1])
    assert (tensor.shape(), tensor.datatype()) == ([2, 3, 4], "FP32")
    np.testing.assert_array_equal(read_back(lease, tensor), array[:, ::-1])


def test_a_tensor_of_torch_is_copied_on_the_gpu(region: Any, torch: Any) -> None:
    lease = Lease(region, tritonclient)
    array = torch.arange(12, dtype=torch.float32, device="cuda").reshape(3, 4)
    tensor = lease.put("a", array)
    np.testing.assert_array_equal(read_back(lease, tensor), array.cpu().numpy())
    with pytest.raises(InvalidArgumentError, match="contiguous"):
        lease.put("b", array.T)


def test_an_array_of_another_stream_is_whole_before_it_is_copied(region: Any, torch: Any) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # cycles that the array below waits for
    made = endcap.preprocess(FILES["4:2:0"], size=64, device="cuda", stream=stream)
    assert made.images.stream == stream.cuda_stream
    lease = Lease(region, tritonclient)
    tensor = lease.put("images", made.images)
    del made
    expected = endcap.preprocess(FILES["4:2:0"], size=64).images
    np.testing.assert_array_equal(read_back(lease, tensor), expected)


def test_preprocessing_writes_into_the_region(region: Any) -> None:
    lease = Lease(region, tritonclient)
    image = FILES["4:2:0"]
    view, tensor = lease.empty("images", (1, 3, 64, 64), np.float32)
    endcap.preprocess(image, size=64, device="cuda", out=view)
    with lease.sending():
        pass
    expected = endcap.preprocess(image, size=64, device="cuda").images.to_numpy()
    np.testing.assert_array_equal(read_back(lease, tensor), expected)


def test_a_view_outlives_lease_and_region(real_gpu: endcap.CudaState) -> None:
    region = KINDS["cuda"](BYTES)
    lease = Lease(region, tritonclient)
    view, _ = lease.empty("a", (4,), np.float32)
    lease.end()
    region.remove()
    views = region.views
    del region, lease
    gc.collect()
    assert view.to_numpy().shape == (4,)
    del view
    gc.collect()
    assert views() is None
