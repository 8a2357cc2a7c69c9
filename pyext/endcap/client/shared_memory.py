"""Pools of shared-memory regions that are registered with a server on this machine."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from endcap.client.concurrency import Tasks, Threads, run
from endcap.client.connection import Connection, read_items
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, check_timeout, parse_address
from endcap.client.regions import (
    KINDS,
    Kind,
    Lease,
    Region,
    check_capacity,
    is_abandoned,
    remove_abandoned,
)
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError

_NO_SERVER = {"unavailable", "timeout", "cancelled"}
_CLOSING_S = 3.0  # for a server to unregister regions
_POLL_S = 0.05
_MIN_REQUEST_S = 0.1


class Pool:
    """Regions of shared memory, lent to one user at a time, by threads or by tasks."""

    _process = 0  # of a pool whose constructor has failed

    def __init__(
        self,
        connection: Connection,
        *,
        region_bytes: int,
        regions: int = 4,
        kind: Kind = "system",
        device_id: int = 0,
    ) -> None:
        if kind not in KINDS:
            raise InvalidArgumentError(f"the kind {kind!r} is unknown; use system or cuda")
        for name, value in (("regions", regions), ("region_bytes", region_bytes)):
            if value < 1:
                raise InvalidArgumentError(f"{name} is {value}; it must be at least 1")
        self._connection, self._runtime = connection, connection.runtime
        self._permits = self._runtime.make_semaphore(regions)
        self._limit, self._kind = regions, kind
        self._region_bytes, self._device_id = region_bytes, device_id
        self._regions: list[Region] = []
        self._is_closed = False
        self._lend_lock, self._changes = threading.Lock(), self._runtime.make_semaphore(1)
        self._process = os.getpid()
        _open_pools.add(self)

    def __del__(self) -> None:
        self.remove_all()

    def __repr__(self) -> str:
        count = f"{len(self._regions)} {self._kind} regions"
        return f"<{type(self).__name__} of {count}, {self._connection.address}>"

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._regions)

    async def open(self) -> None:
        """Make and register the regions; remove those of dead processes."""
        has_file, deadline = self._kind == "system", self._make_deadline()
        remove_abandoned()
        if has_file:
            check_capacity(self._limit, self._region_bytes)
        try:
            for _ in range(self._limit):
                await self._make_region(deadline)
            names = await self._fetch_names(self._connection, deadline)
            abandoned = [name for name in names if is_abandoned(name, has_file=has_file)]
            await self._unregister(self._connection, abandoned, deadline)
        except BaseException:
            await self._runtime.call(self.remove_all)
            raise

    async def end(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions."""
        if os.getpid() == self._process and not self._is_closed:
            deadline = self._make_deadline()
            self._is_closed = True
            while any(region.is_lent for region in self._regions) and time.monotonic() < deadline:
                await self._runtime.sleep(_POLL_S)
            is_free = await self._runtime.acquire(self._changes, _seconds_until(deadline))
            await self._runtime.call(self.remove_all)
            if is_free:
                self._changes.release()  # waiting calls then see that it is closed

    def remove_all(self, seconds: float = _CLOSING_S) -> None:
        """Remove the regions; unregister them first, as far as the server responds in time.

        It blocks, with a separate connection: the event loop may have ended.
        """
        if os.getpid() != self._process or not self._regions:
            return
        self._is_closed = True
        deadline = time.monotonic() + seconds

        async def unregister() -> None:
            options = replace(self._connection.options, retries=0)
            async with Connection(self._connection.address, options) as connection:
                names: Collection[str] = self.names
                while names and time.monotonic() < deadline:
                    names = await self._unregister(connection, names, deadline)
                    time.sleep(_POLL_S if names else 0)

        try:
            with contextlib.suppress(EndcapError):
                run(unregister())
        finally:
            for region in self._regions:
                region.remove()
            self._regions = []

    @contextlib.asynccontextmanager
    async def lend(self, timeout_s: float | None = None) -> AsyncIterator[Lease]:
        """Lend a region for the block; see `SharedMemoryPool.acquire`."""
        deadline = self._make_deadline(timeout_s)
        if not await self._runtime.acquire(self._permits, max(deadline - time.monotonic(), 0)):
            raise RequestError(
                "timeout",
                f"all {self._limit} shared-memory regions were in use until the deadline; "
                "make the pool with more, or send less at once",
            )
        with contextlib.ExitStack() as stack:
            stack.callback(self._permits.release)
            while (lease := self._take_region()) is None:
                await self._add_region(deadline)
            stack.callback(lease.end)
            yield lease

    async def send(self, lease: Lease, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return tritonclient's InferResult of the arguments of `infer`.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time.

        Raises:
            RequestError, TimeoutError: Of the request.
        """
        deadline = time.monotonic() + timeout_s
        try:
            with lease.sending():
                return await self._connection.infer(arguments, timeout_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        await self._register_again(deadline)
        with lease.sending():
            return await self._connection.infer(arguments, _seconds_until(deadline))

    async def _infer(
        self,
        lease: Lease,
        model: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request that uses the lease's region; see `SharedMemoryPool.infer`."""
        if timeout_s is not None:
            check_timeout(timeout_s)
        arguments = {"model_name": model, "inputs": inputs, "outputs": outputs}
        send = functools.partial(self.send, lease, arguments)
        return await self._connection.repeat(send, timeout_s, is_repeatable=False)

    def _make_deadline(self, timeout_s: float | None = None) -> float:
        """Return the deadline of a call; raise an error if the pool cannot be used."""
        self._check()
        limit_s = self._connection.options.timeout_s if timeout_s is None else timeout_s
        return time.monotonic() + limit_s

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise UnsupportedError(
                "this pool of shared memory belongs to the parent process; make one after the fork"
            )
        if self._is_closed:
            raise InvalidArgumentError("the pool of shared memory is closed; make another one")

    def _take_region(self) -> Lease | None:
        """Lend a free region; return None if `_add_region` has to make one."""
        self._check()  # it may have been closed during the wait
        with self._lend_lock:
            for region in self._regions:
                if not region.is_lent and not region.is_retired and region.views() is None:
                    region.is_lent = True
                    return Lease(region, self._connection.module)
        return None

    async def _add_region(self, deadline: float) -> None:
        """Make a region, and remove the retired ones that the server no longer uses."""
        while True:
            async with self._change_regions(deadline):
                retired = {region.name for region in self._regions if region.is_retired}
                used = await self._unregister(self._connection, retired, deadline)
                for region in [r for r in self._regions if r.name in retired - used]:
                    region.remove()
                    self._regions.remove(region)
                if len(used) < 2 * self._limit:
                    await self._make_region(deadline)
                    return
            if time.monotonic() > deadline:
                raise RequestError(
                    "timeout",
                    "the server still works on requests that nobody waits for any more, and may "
                    "write to their regions; send less",
                )
            await self._runtime.sleep(_POLL_S)

    async def _make_region(self, deadline: float) -> None:
        """Make and register a region."""
        self._check()  # it may have been closed meanwhile
        region = await self._runtime.call(KINDS[self._kind], self._region_bytes, self._device_id)
        region.is_retired = True  # until it is registered
        self._regions.append(region)
        await self._register(region, deadline)
        region.is_retired = False

    async def _register_again(self, deadline: float) -> None:
        """Register the regions that a restarted server does not have."""
        async with self._change_regions(deadline):
            names = await self._fetch_names(self._connection, deadline)
            for region in self._regions:
                if not region.is_retired and region.name not in names:
                    await self._register(region, deadline)

    @contextlib.asynccontextmanager
    async def _change_regions(self, deadline: float) -> AsyncIterator[None]:
        """Keep others from changing the regions for the block."""
        if not await self._runtime.acquire(self._changes, _seconds_until(deadline)):
            raise RequestError("timeout", "other changes of the regions did not end in time")
        try:
            yield
        finally:
            self._changes.release()

    # --- the server's regions ---------------------------------------------------------------------

    async def _fetch_names(self, connection: Connection, deadline: float) -> set[str]:
        """Return the names of the regions that are registered."""
        method, timeout_s = f"get_{self._kind}_shared_memory_status", _seconds_until(deadline)
        status = await connection.request(method, timeout_s=timeout_s)
        return {str(region.get("name")) for region in read_items(status, "regions")}

    async def _register(self, region: Region, deadline: float) -> None:
        """Register a region; raise UnsupportedError if the server refuses it."""
        method, timeout_s = f"register_{self._kind}_shared_memory", _seconds_until(deadline)
        try:
            await self._connection.request(method, timeout_s=timeout_s, **region.registration)
        except RequestError as error:
            if error.status_name in _NO_SERVER:
                raise
            with contextlib.suppress(RequestError):
                if region.name in await self._fetch_names(self._connection, deadline):
                    return  # the response to an earlier attempt was lost
            raise UnsupportedError(
                f"the server does not accept a shared-memory region ({error}); start it with "
                "`endcap serve --client-shared-memory` (others from Triton 2.69 on with "
                "--allow-client-shm=true), and let it see this machine's /dev/shm (in containers: "
                "--ipc=host) and open this user's files there; or do without shared memory"
            ) from error

    async def _unregister(
        self, connection: Connection, names: Collection[str], deadline: float
    ) -> set[str]:
        """Unregister regions; return those that the server keeps because a request uses them."""
        method = f"unregister_{self._kind}_shared_memory"
        for name in names:
            try:
                await connection.request(method, timeout_s=_seconds_until(deadline), name=name)
            except RequestError as error:
                if error.status_name in _NO_SERVER:
                    raise
        return await self._fetch_names(connection, deadline) & {*names} if names else set()


_open_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _remove_all_pools() -> None:
    deadline = time.monotonic() + _CLOSING_S
    for pool in list(_open_pools):
        pool.remove_all(_seconds_until(deadline))


def _seconds_until(deadline: float) -> float:
    """Return the seconds until `deadline`, but not fewer than a request needs."""
    return max(deadline - time.monotonic(), _MIN_REQUEST_S)


class _ServerPool(Pool):
    """A pool with its own connection."""

    _make_runtime: ClassVar[type[Threads] | type[Tasks]]

    def __init__(
        self,
        url: str,
        *,
        region_bytes: int,
        regions: int = 4,
        kind: Kind = "system",
        device_id: int = 0,
        options: ConnectionOptions | None = None,
    ) -> None:
        runtime = self._make_runtime()
        connection = Connection(parse_address(url), options or ConnectionOptions(), runtime)
        super().__init__(
            connection, region_bytes=region_bytes, regions=regions, kind=kind, device_id=device_id
        )
        if not runtime.is_async:
            run(self.open())


class SharedMemoryPool(_ServerPool):
    """Regions of shared memory that are made and registered once, and lent to one user at a time.

    `SharedMemoryPool` is for threads, and opened when it is made. `AsyncSharedMemoryPool` is for
    the tasks of one event loop, and opened by `async with`.

    A region with living views at the end of its lease is lent again when they are gone; until then
    another takes its place. A region whose request has no response, as at a timeout, is retired,
    and removed when the server has done with it; of these there are at most twice `regions` more.
    All are removed by `close`, at the end of the program, and when the pool is garbage-collected;
    those of killed processes when the same user's next pool is made. In a forked child the pool
    cannot be used, and does not touch the parent's regions.

    Args:
        url: Of a server on this machine, as for `DetectionClient`.
        region_bytes: The size of each region.
        regions: The number of regions that can be lent at once.
        kind: "system", or "cuda" for the memory of a GPU.
        device_id: The number of the GPU.
        options: Of the connection.

    Raises:
        OutOfMemoryError: /dev/shm has no room for it.
        UnsupportedError: The server cannot use the memory.
        RequestError: The server does not respond.
    """

    _make_runtime = Threads

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lend a region for the block; wait for one for at most `timeout_s` seconds.

        Args:
            timeout_s: None is the connection's.

        Raises:
            RequestError: With the status "timeout" when no region becomes free.
        """
        block = self.lend(timeout_s)
        lease = run(block.__aenter__())
        try:
            yield lease
        finally:
            run(block.__aexit__(None, None, None))

    def infer(
        self,
        lease: Lease,
        model: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request that uses the lease's region; return tritonclient's InferResult.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time. Other errors are not retried.
        """
        return run(self._infer(lease, model, inputs, outputs, timeout_s=timeout_s))

    def close(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions.

        Meanwhile no region is lent, and requests of the leases continue. A server that does not
        respond delays it by a few seconds at most.
        """
        run(self.end())
        run(self._connection.close())


class AsyncSharedMemoryPool(_ServerPool):
    """`SharedMemoryPool` for the tasks of one event loop."""

    _make_runtime = Tasks
    acquire = Pool.lend
    infer = Pool._infer

    async def __aenter__(self) -> AsyncSharedMemoryPool:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See `SharedMemoryPool.close`."""
        await self.end()
        await self._connection.close()
