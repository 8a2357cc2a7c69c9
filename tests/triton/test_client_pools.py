"""Pools of shared memory against a server: requests through them, and what is refused."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shared_memory_models import (
    IMAGE,
    OTHER,
    REGION_BYTES,
    expected,
    files,
    infer,
)

import endcap
from endcap.client import SharedMemoryPool, exit_on_sigterm
from endcap.client.address import parse_address
from endcap.client.calls import Call
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.errors import CudaError, InvalidArgumentError, OutOfMemoryError, UnsupportedError

Pools = Callable[..., SharedMemoryPool]


def test_regions_are_registered_once(pools: Pools, pool_connection: Connection) -> None:
    pool = pools(regions=3)
    names = pool.names
    assert len(names) == 3
    assert pool_connection.registered("system") == {name: f"/{name}" for name in names}
    for _ in range(20):
        np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))
    assert pool.names == sorted(pool_connection.registered("system")) == names


def test_a_tensor_goes_from_model_to_model_without_a_copy(pools: Pools) -> None:
    pool = pools()
    with pool.acquire() as lease:
        encoded = lease.put_encoded("encoded", [IMAGE, OTHER], (2, 1))
        output = lease.output("images", (2, 3, 32, 32), np.float32)
        response = pool.infer(lease, Call("pre", [encoded], [output]))
        tensor = lease.as_input(output, "images", response)
        assert tensor.shape == (2, 3, 32, 32)
        np.testing.assert_array_equal(
            lease.read(output, response), np.concatenate([expected(IMAGE), expected(OTHER)])
        )


def test_an_error_of_the_server_leaves_the_region_in_use(pools: Pools) -> None:
    pool = pools(regions=1)
    (name,) = pool.names
    for _ in range(3):
        with pytest.raises(RequestError) as caught:
            infer(pool, b"no image")
        assert caught.value.status_name == "corrupt_image"
    np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))
    assert pool.names == [name]


def test_threads_share_a_pool(pools: Pools) -> None:
    pool = pools(regions=2)
    wrong = []

    def work(image: bytes) -> None:
        wanted = expected(image)
        wrong.extend(1 for _ in range(20) if not np.array_equal(infer(pool, image), wanted))

    threads = [threading.Thread(target=work, args=(i,)) for i in [IMAGE, OTHER] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(pool.names) == 2


def test_somebody_who_unregisters_all_regions_disturbs_nobody(
    pools: Pools, pool_connection: Connection
) -> None:
    pool = pools()
    names = pool.names
    for name in names:  # examples of other clients begin by unregistering what there is
        pool_connection.unregister_shared("system", name)
    assert pool_connection.registered("system") == {}
    np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))
    assert sorted(pool_connection.registered("system")) == pool.names == names


def test_a_pool_that_does_not_fit_leaves_nothing(
    pool_connection: Connection, region_names: list[str]
) -> None:
    with pytest.raises(OutOfMemoryError, match="do not fit into /dev/shm"):
        SharedMemoryPool(pool_connection, region_bytes=1 << 50)
    assert not region_names, "a region was made all the same"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regions": 0}, "regions is 0"),
        ({"region_bytes": 0}, "region_bytes is 0"),
        ({"kind": "gpu"}, "'gpu' is unknown"),
    ],
)
def test_impossible_settings_are_refused(
    pool_connection: Connection, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SharedMemoryPool(pool_connection, **{"region_bytes": 1, **settings})


def test_a_server_that_cannot_see_the_memory_says_what_to_do(
    pool_connection: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """As in a container with a /dev/shm of its own: the server does not find the file."""
    from endcap.client.regions import region

    for module in (region, region):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(UnsupportedError, match="--ipc=host"):
        SharedMemoryPool(pool_connection, region_bytes=REGION_BYTES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(endcap.cuda_state().available, reason="there is a GPU: see tests/gpu")
def test_without_a_gpu_a_pool_on_it_says_what_is_missing(pool_connection: Connection) -> None:
    with pytest.raises((UnsupportedError, CudaError), match=r"'cuda-bindings>=|on the GPU failed"):
        SharedMemoryPool(pool_connection, kind="cuda", region_bytes=REGION_BYTES)


def test_without_a_server_there_is_no_pool_and_no_file(region_names: list[str]) -> None:
    options = ConnectionOptions(timeout_s=2, retries=0)
    nobody = Connection(parse_address("127.0.0.1:1", "http"), options)
    with nobody, pytest.raises(RequestError):
        SharedMemoryPool(nobody, region_bytes=REGION_BYTES)
    assert region_names
    assert not files() & set(region_names)


def test_a_pool_handles_sigterm_only_when_asked(
    pool_connection: Connection,
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with SharedMemoryPool(pool_connection, regions=1, region_bytes=REGION_BYTES):
            assert signal.getsignal(signal.SIGTERM) is before
        exit_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) is not before
    finally:
        signal.signal(signal.SIGTERM, before)
