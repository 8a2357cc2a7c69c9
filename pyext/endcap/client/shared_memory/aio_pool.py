"""A pool of shared-memory regions for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.in_thread import in_thread
from endcap.client.shared_memory.base import PoolBase, regions_not_ready
from endcap.client.shared_memory.exits import exit_on_sigterm
from endcap.client.shared_memory.holdings import CLOSING_S
from endcap.client.shared_memory.lease import Lease
from endcap.client.shared_memory.permits import Permits
from endcap.client.shared_memory.region import Kind, Region
from endcap.client.shared_memory.steps import left_s, run_async
from endcap.client.shared_memory.upkeep import WAIT_S

if TYPE_CHECKING:
    from endcap.client.aio_connection import AsyncConnection


class AsyncSharedMemoryPool(PoolBase):
    """SharedMemoryPool for the tasks of one event loop: the same arguments and promises.

    It is opened by `async with`, or made by `await AsyncSharedMemoryPool.create(...)`.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: Kind = "system",
        device_id: int = 0,
        handle_sigterm: bool = True,
    ) -> None:
        super().__init__(connection, kind, regions, region_bytes, device_id)
        if handle_sigterm:
            exit_on_sigterm()
        self._connection = connection
        self._permits = Permits(self._stock.limit)
        self._upkeep_lock = Permits(1)

    @classmethod
    async def create(
        cls,
        connection: AsyncConnection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: Kind = "system",
        device_id: int = 0,
        handle_sigterm: bool = True,
    ) -> AsyncSharedMemoryPool:
        """Makes and opens a pool. Raises as the constructor of SharedMemoryPool does."""
        pool = cls(
            connection,
            regions=regions,
            region_bytes=region_bytes,
            kind=kind,
            device_id=device_id,
            handle_sigterm=handle_sigterm,
        )
        return await pool.__aenter__()

    async def __aenter__(self) -> AsyncSharedMemoryPool:
        try:
            await run_async(self._connection, self._upkeep.open())
        except BaseException:
            await in_thread(self._finaliser)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def acquire(self, timeout_s: float | None = None) -> AsyncIterator[Lease]:
        """Lends a region for the block; waits for one for at most `timeout_s` seconds.

        timeout_s: None is the connection's. Raises RequestError, "timeout", when none gets free.
        """
        self._check_lendable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        if not await self._permits.acquire(limit_s):
            raise self._none_free(limit_s)
        try:
            lease = Lease(await self._take(deadline))
            try:
                yield lease
            finally:
                if self._holdings.are_ours:
                    self._stock.end(lease)
        finally:
            if self._holdings.are_ours:
                self._permits.release()

    async def infer(self, lease: Lease, call: Call, *, timeout_s: float | None = None) -> Response:
        """Sends a request that uses the lease's region; see SharedMemoryPool.infer."""
        self._check_usable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        generation = self._upkeep.generation
        try:
            with lease.sending():
                return await self._connection.infer(call, timeout_s=limit_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        async with self._upkeep_alone(deadline):
            await run_async(self._connection, self._upkeep.register_again(generation, deadline))
        with lease.sending():
            return await self._connection.infer(call, timeout_s=left_s(deadline))

    async def close(self) -> None:
        """Waits for the leases and removes all regions; see SharedMemoryPool.close.

        When it is cancelled while it waits, the pool goes on as before; once it removes regions it
        ends with that.
        """
        if not self._holdings.are_ours or self._closing:
            return
        self._closing = True
        deadline = time.monotonic() + self._timeout_s
        permits = 0
        try:
            while permits < self._stock.limit and await self._permits.acquire(
                deadline - time.monotonic()
            ):
                permits += 1
            alone = await self._upkeep_lock.acquire(CLOSING_S)
            try:
                self._closed = True
                await in_thread(self._holdings.give_back)
            finally:
                if alone:
                    self._upkeep_lock.release()
        finally:
            self._closing = False
            for _ in range(permits):
                self._permits.release()  # those who wait learn that it is closed

    async def _take(self, deadline: float) -> Region:
        self._check_lendable()
        region = self._stock.take()
        if region is None:
            self._check_views()
            region = await self._make(deadline)
            self._stock.add_lent(region)
        return region

    async def _make(self, deadline: float) -> Region:
        while True:
            async with self._upkeep_alone(deadline):
                region = await run_async(self._connection, self._upkeep.make(deadline))
            if region is not None:
                return region
            self._check_time_for_another(deadline)
            await asyncio.sleep(WAIT_S)

    @contextlib.asynccontextmanager
    async def _upkeep_alone(self, deadline: float) -> AsyncIterator[None]:
        if not await self._upkeep_lock.acquire(deadline - time.monotonic()):
            raise regions_not_ready()
        try:
            yield
        finally:
            self._upkeep_lock.release()
