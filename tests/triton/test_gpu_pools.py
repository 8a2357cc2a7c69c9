"""Pools of a GPU's memory in a real server: the host's numbers, and nothing left."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import SharedMemoryPool
from endcap.client.calls import Call
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions, parse_address
from endcap.triton.installation import gpu_count
from tests.triton.running_server import RunningServer
from tests.triton.shared_memory_models import IMAGE, REGION_BYTES, SHAPE, call, expected

STATE = endcap.cuda_state()
WHY_NOT = STATE.reason or ("" if gpu_count() else "the server sees no GPU")
pytestmark = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("ENDCAP_REQUIRE_CUDA") != "1", reason=WHY_NOT or "-"
)
if os.environ.get("ENDCAP_REQUIRE_CUDA") != "1":
    pytest.importorskip("cuda.bindings.runtime")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_encoded_images_and_tensors_go_through_gpu_memory(
    protocol: Any, pool_server: RunningServer
) -> None:
    address = parse_address(getattr(pool_server, protocol), protocol)
    with Connection(address, ConnectionOptions()) as connection:
        with SharedMemoryPool(connection, kind="cuda", region_bytes=REGION_BYTES) as pool:
            assert sorted(connection.registered("cuda")) == pool.names
            for _ in range(20):
                with pool.acquire() as lease:
                    request, output = call(lease, IMAGE)
                    view = lease.read(output, pool.infer(lease, request))
                    assert (view.shape, view.device) == (SHAPE, "cuda:0")
                    np.testing.assert_array_equal(view.to_numpy(), expected(IMAGE))
                    del view
            with pool.acquire() as lease:
                encoded = lease.put_encoded("encoded", [IMAGE] * 2, (2, 1))
                output = lease.output("images", (2, *SHAPE[1:]), np.float32)
                response = pool.infer(lease, Call("pre", [encoded], [output]))
                np.testing.assert_array_equal(
                    lease.read(output, response).to_numpy(), np.concatenate([expected(IMAGE)] * 2)
                )
        assert connection.registered("cuda") == {}
