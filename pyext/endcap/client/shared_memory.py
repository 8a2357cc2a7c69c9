"""Pools of memory that this process and a Triton server on the same machine share.

`SharedMemoryPool` is for threads, `AsyncSharedMemoryPool` for asyncio.
"""

from __future__ import annotations

from endcap.client._async.connection import AsyncConnection
from endcap.client._async.shared_memory_pool import AsyncRegionPool
from endcap.client._sync.connection import Connection
from endcap.client._sync.shared_memory_pool import RegionPool
from endcap.client.regions.exits import exit_on_sigterm
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import Kind

__all__ = ["AsyncSharedMemoryPool", "Kind", "Lease", "SharedMemoryPool", "exit_on_sigterm"]


class SharedMemoryPool(RegionPool):
    """Regions that are made and registered once, and lent to one user at a time. Thread-safe.

    A region into which views look when its lease ends is set aside, and another is made in its
    place. Of those set aside the last `regions` are lent again when their views are gone; older
    ones are removed, but their memory lives with the views. Where the views of eight times
    `regions` leases live, no further region is made: OutOfMemoryError. A region whose request has
    no response, as at a timeout, is given up, and removed when the server has done with it; of
    these there are at most twice `regions` more.

    All are removed by `close`, at the end of the program, and when the pool is garbage; those of
    killed processes when the next pool is made. In a forked child the pool is of no use, and
    nothing that becomes of it there touches the parent's.

    Raises OutOfMemoryError without room in /dev/shm, UnsupportedError where the server cannot use
    the memory, RequestError where it does not respond.

    Args:
        connection: With a server on this machine. The pool does not close it.
        regions: How many can be lent at once.
        region_bytes: The size of each.
        kind: "system" or "cuda", the latter in the memory of the GPU `device_id`.
        handle_sigterm: Calls `exit_on_sigterm`, which see.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: Kind = "system",
        device_id: int = 0,
        handle_sigterm: bool = False,
    ) -> None:
        super().__init__(
            connection,
            regions=regions,
            region_bytes=region_bytes,
            kind=kind,
            device_id=device_id,
            handle_sigterm=handle_sigterm,
        )
        self.open()

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncSharedMemoryPool(AsyncRegionPool):
    """SharedMemoryPool for the tasks of one event loop: the same arguments and promises.

    It is opened by `async with`, or made by `await AsyncSharedMemoryPool.create(...)`.
    """

    @classmethod
    async def create(
        cls,
        connection: AsyncConnection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: Kind = "system",
        device_id: int = 0,
        handle_sigterm: bool = False,
    ) -> AsyncSharedMemoryPool:
        """Make and opens a pool. Raises as the constructor of SharedMemoryPool does."""
        pool = cls(
            connection,
            regions=regions,
            region_bytes=region_bytes,
            kind=kind,
            device_id=device_id,
            handle_sigterm=handle_sigterm,
        )
        await pool.open()
        return pool

    async def __aenter__(self) -> AsyncSharedMemoryPool:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
