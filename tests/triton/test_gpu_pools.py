"""Pools of a GPU's memory in a real server: the host's numbers, and nothing left."""

from __future__ import annotations

import os

import numpy as np
import pytest

import endcap
from endcap.triton.installation import gpu_count
from tests.triton.client_layouts import GRPC, HTTP, Layout, each
from tests.triton.running_server import RunningServer
from tests.triton.shared_memory_models import IMAGE, REGION_BYTES, SHAPE, Pools, call, expected

STATE = endcap.cuda_state()
WHY_NOT = STATE.reason or ("" if gpu_count() else "the server sees no GPU")
pytestmark = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("ENDCAP_REQUIRE_CUDA") != "1", reason=WHY_NOT or "-"
)
if os.environ.get("ENDCAP_REQUIRE_CUDA") != "1":
    pytest.importorskip("cuda.bindings.runtime")


@each([GRPC, HTTP])
def test_encoded_images_and_tensors_go_through_gpu_memory(
    layout: Layout, pool_server: RunningServer
) -> None:
    with Pools(layout, pool_server) as pools:
        with layout.pool(pool_server, kind="cuda", region_bytes=REGION_BYTES) as pool:
            assert sorted(pools.registered("cuda")) == pool.names
            for _ in range(20):
                with pool.acquire() as lease:
                    view = lease.read("images", pool.infer(lease, *call(lease, IMAGE)))
                    assert (view.shape, view.device) == (SHAPE, "cuda:0")
                    np.testing.assert_array_equal(view.to_numpy(), expected(IMAGE))
                    del view
            with pool.acquire() as lease:
                encoded = lease.put_encoded("encoded", [IMAGE] * 2, (2, 1))
                output = lease.output("images", (2, *SHAPE[1:]), np.float32)
                result = pool.infer(lease, "pre", [encoded], [output])
                np.testing.assert_array_equal(
                    lease.read("images", result).to_numpy(), np.concatenate([expected(IMAGE)] * 2)
                )
        assert pools.registered("cuda") == set()
