"""Pools of shared-memory regions that are registered with a server on this machine."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

from endcap.client.calls import Call, RegionKind, Response
from endcap.client.concurrency import in_event_loop, run
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.errors import RequestError
from endcap.client.lease import KINDS, Lease, check_capacity, is_abandoned, remove_abandoned
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError

# Seconds for a server to unregister regions (at exit: of all pools), between checks, and the least
# for a request.
_CLOSING_S, _WAIT_S, _SHORTEST_S = 3.0, 0.05, 0.1
_NO_SERVER = {"unavailable", "timeout", "cancelled"}
_living: weakref.WeakSet[AsyncSharedMemoryPool] = weakref.WeakSet()


class AsyncSharedMemoryPool:
    """SharedMemoryPool for the tasks of one event loop.

    What changes the regions uses another connection, and blocks: it runs in a thread.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: RegionKind = "system",
        device_id: int = 0,
    ) -> None:
        self._regions: list[Any] = []
        if kind not in KINDS:
            raise InvalidArgumentError(f"the kind {kind!r} is unknown; use system or cuda")
        for name, value in (("regions", regions), ("region_bytes", region_bytes)):
            if value < 1:
                raise InvalidArgumentError(f"{name} is {value}; it must be at least 1")
        self._connection, self._runtime = connection, connection.runtime
        self._limit, self._byte_size = regions, region_bytes
        self._kind, self._device_id = kind, device_id
        self._process = os.getpid()
        self._closing = self._closed = False
        self._permits = self._runtime.semaphore(regions)
        self._taking, self._changing = threading.Lock(), threading.Lock()
        _living.add(self)

    @classmethod
    async def create(cls, connection: AsyncConnection, **settings: Any) -> AsyncSharedMemoryPool:
        """Return an opened pool; raise what the constructor of SharedMemoryPool does."""
        pool = cls(connection, **settings)
        await pool.open()
        return pool

    async def open(self) -> None:
        """Make and register the regions; raise what the constructor of SharedMemoryPool does."""
        await self._runtime.call(self._open)

    async def __aenter__(self) -> AsyncSharedMemoryPool:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        count = f"{len(self._regions)} {self._kind} regions"
        return f"<{type(self).__name__} of {count}, {self._connection.address}>"

    def __del__(self) -> None:
        if self._regions and self._process == os.getpid():
            removal = threading.Thread(target=self._remove_all, name="endcap shared memory")
            removal.start()
            if not in_event_loop():  # which may be the one that the thread needs
                removal.join()

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._regions)

    @contextlib.asynccontextmanager
    async def acquire(self, timeout_s: float | None = None) -> AsyncIterator[Lease]:
        """See SharedMemoryPool."""
        deadline = self._deadline(timeout_s, lending=True)
        if not await self._permits.acquire(max(deadline - time.monotonic(), 0)):
            raise RequestError(
                "timeout",
                f"all {self._limit} shared-memory regions were in use until the deadline; make the "
                "pool with more, or send less at once",
            )
        with contextlib.ExitStack() as ends:
            ends.callback(self._permits.release)
            while (lease := self._take()) is None:
                await self._runtime.call(self._add, deadline)
            ends.callback(lease.end)
            yield lease

    async def infer(self, lease: Lease, call: Call, *, timeout_s: float | None = None) -> Response:
        """See SharedMemoryPool."""
        deadline = self._deadline(timeout_s)
        try:
            with lease.sending():
                return await self._connection.infer(call, timeout_s=timeout_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        await self._runtime.call(self._register_again, deadline)
        with lease.sending():
            return await self._connection.infer(call, timeout_s=_left_s(deadline))

    async def close(self) -> None:
        """See SharedMemoryPool."""
        await self._runtime.call(self._close)

    def _deadline(self, timeout_s: float | None, *, lending: bool = False) -> float:
        """Return the deadline of a call; raise an error where the pool cannot be used."""
        if os.getpid() != self._process:
            raise UnsupportedError(
                "this pool of shared memory belongs to the parent process; make one after the fork"
            )
        if self._closed or (lending and self._closing):
            raise InvalidArgumentError("the pool of shared memory is closed; make another one")
        limit_s = self._connection.options.timeout_s if timeout_s is None else timeout_s
        return time.monotonic() + limit_s

    def _open(self) -> None:
        """Make and register the regions; remove those of dead processes."""
        remove_abandoned()
        if self._kind == "system":
            check_capacity(self._limit, self._byte_size)
        deadline = self._deadline(None)
        try:
            with self._changes(deadline) as server:
                for _ in range(self._limit):
                    self._make(server, deadline)
                known = server.registered(self._kind, timeout_s=_left_s(deadline))
                in_file = self._kind == "system"
                gone = [name for name in known if is_abandoned(name, in_file=in_file)]
                self._unregister(server, gone, deadline)
        except BaseException:
            self._remove_all()
            raise

    def _take(self) -> Lease | None:
        """Lend a free region; return None where `_add` has to make one."""
        self._deadline(None, lending=True)  # it may have been closed during the wait
        with self._taking:
            for region in self._regions:
                if not region.lent and not region.retired and region.views() is None:
                    region.lent = True
                    return Lease(region)
        return None

    def _add(self, deadline: float) -> None:
        """Remove the retired regions that the server has done with, and make one."""
        while True:
            with self._changes(deadline) as server:
                retired = [region for region in self._regions if region.retired]
                if self._release(server, retired, deadline) < 2 * self._limit:
                    return self._make(server, deadline)
            if time.monotonic() > deadline:
                message = "the server still works on requests that nobody waits for any more, and "
                raise RequestError("timeout", message + "may write to their regions; send less")
            time.sleep(_WAIT_S)

    def _register_again(self, deadline: float) -> None:
        """Register the regions that a restarted server does not have."""
        with self._changes(deadline) as server:
            known = server.registered(self._kind, timeout_s=_left_s(deadline))
            for region in self._regions:
                if not region.retired and region.name not in known:
                    self._register(server, region, deadline)

    def _close(self) -> None:
        if os.getpid() != self._process or self._closing or self._closed:
            return
        self._closing = True
        deadline = self._deadline(None)
        try:
            while any(region.lent for region in self._regions) and time.monotonic() < deadline:
                time.sleep(_WAIT_S)
            self._remove_all()
        finally:
            self._closing = False

    def _remove_all(self, seconds: float = _CLOSING_S) -> None:
        """Remove the regions; unregister them first, as far as the server responds in time."""
        if os.getpid() != self._process:
            return
        self._closed = True
        deadline = time.monotonic() + seconds
        try:
            with contextlib.suppress(EndcapError), self._changes(deadline, retries=0) as made:
                while self._release(made, self._regions, deadline) and time.monotonic() < deadline:
                    time.sleep(_WAIT_S)
        finally:
            for region in self._regions:
                region.remove()
            self._regions = []

    @contextlib.contextmanager
    def _changes(self, deadline: float, **options: Any) -> Iterator[Connection]:
        """Keep others from changing the regions; yield a connection to the server."""
        if not self._changing.acquire(timeout=_left_s(deadline)):
            raise RequestError("timeout", "the server has not taken the regions of others in time")
        try:
            changed = dataclasses.replace(self._connection.options, **options)
            with Connection(self._connection.address, changed) as server:
                yield server
        finally:
            self._changing.release()

    def _make(self, server: Connection, deadline: float) -> None:
        """Make and register a region."""
        self._deadline(None)  # raises an error where the pool was closed meanwhile
        region = KINDS[self._kind](self._byte_size, self._device_id)
        region.retired = True  # until it is registered
        self._regions.append(region)
        self._register(server, region, deadline)
        region.retired = False

    def _register(self, server: Connection, region: Any, deadline: float) -> None:
        try:
            server.register_shared(self._kind, region.registration, timeout_s=_left_s(deadline))
        except RequestError as error:
            if error.status_name in _NO_SERVER:
                raise
            with contextlib.suppress(RequestError):
                if region.name in server.registered(self._kind, timeout_s=_left_s(deadline)):
                    return  # the response to an earlier attempt was lost
            raise UnsupportedError(
                f"the server does not take a shared-memory region ({error}); start it with "
                "`endcap serve --client-shared-memory` (others from release 2.69 on with "
                "--allow-client-shm=true), and let it see this machine's /dev/shm (in containers: "
                "--ipc=host) and open this user's files there; or do without shared memory"
            ) from error

    def _unregister(self, server: Connection, names: list[str], deadline: float) -> None:
        """Unregister regions but for those that a request uses, which the server refuses."""
        for name in names:
            try:
                server.unregister_shared(self._kind, name, timeout_s=_left_s(deadline))
            except RequestError as error:
                if error.status_name in _NO_SERVER:
                    raise

    def _release(self, server: Connection, regions: list[Any], deadline: float) -> int:
        """Remove the regions that the server unregisters; return the number of the others."""
        if not regions:
            return 0
        self._unregister(server, [region.name for region in regions], deadline)
        known = server.registered(self._kind, timeout_s=_left_s(deadline))
        for region in [region for region in regions if region.name not in known]:
            region.remove()
            self._regions.remove(region)
        return len([region for region in self._regions if region in regions])


class SharedMemoryPool:
    """Regions of shared memory that are made and registered once, and lent to one user at a time.

    `SharedMemoryPool` is for threads, and opened when it is made. `AsyncSharedMemoryPool` is for
    the tasks of one event loop; open it by `async with` or `AsyncSharedMemoryPool.create`.

    A region with living views at the end of its lease is lent again when they are gone; until then
    another takes its place. A region whose request has no response, as at a timeout, is retired,
    and removed when the server has done with it; of these there are at most twice `regions` more.
    All are removed by `close`, at the end of the program, and when the pool is garbage-collected;
    those of killed processes when the same user's next pool is made. In a forked child the pool
    cannot be used, and does not touch the parent's regions.

    Args:
        connection: With a server on this machine. The pool does not close it.
        regions: The number of regions that can be lent at once, 4 by default.
        region_bytes: The size of each.
        kind: "system", the default, or "cuda", in the memory of the GPU `device_id`.
        device_id: The GPU's, 0 by default.

    Raises:
        OutOfMemoryError: There is no room in /dev/shm.
        UnsupportedError: The server cannot use the memory.
        RequestError: The server does not respond.
    """

    def __init__(self, connection: Connection, **settings: Any) -> None:
        self._coroutines = AsyncSharedMemoryPool(connection.coroutines, **settings)
        run(self._coroutines.open())

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._coroutines).replace("Async", "", 1)

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return self._coroutines.names

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lend a region for the block; wait for one for at most `timeout_s` seconds.

        Args:
            timeout_s: None is the connection's.

        Raises:
            RequestError: With the status "timeout" when no region becomes free.
        """
        block = self._coroutines.acquire(timeout_s)
        lease = run(block.__aenter__())
        try:
            yield lease
        finally:
            run(block.__aexit__(None, None, None))

    def infer(self, lease: Lease, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request that uses the lease's region, and return its response.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time.
        """
        return run(self._coroutines.infer(lease, call, timeout_s=timeout_s))

    def close(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions.

        Meanwhile no region is lent, and requests of the leases continue. A server that does not
        respond delays it by a few seconds at most. An interrupted wait leaves the pool open; that
        of a cancelled task goes on in a thread.
        """
        run(self._coroutines.close())


def _left_s(deadline: float) -> float:
    """Return the seconds until `deadline`, not fewer than a request needs."""
    return max(deadline - time.monotonic(), _SHORTEST_S)


@atexit.register
def _remove_all_pools() -> None:
    deadline = time.monotonic() + _CLOSING_S
    for pool in list(_living):
        pool._remove_all(_left_s(deadline))
