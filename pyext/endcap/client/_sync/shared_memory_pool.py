"""A pool of shared-memory regions that are registered with a server."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from collections.abc import Iterator

from endcap.client._sync.region_registration import (
    WAIT_S,
    RegionRegistration,
    left_s,
    unregister_all,
)
from endcap.client.calls import Call, Response
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.regions.lease import Lease
from endcap.client.regions.pool_regions import CLOSING_S, OwnedRegions, RegionStates
from endcap.client.regions.region import Kind, Region, check_settings
from endcap.client.regions.sigterm import exit_on_sigterm
from endcap.client.synchronization import Semaphore, run_blocking, sleep
from endcap.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError

# How many ended leases may have living views, by the number of regions: their memory stays.
VIEWED_LEASES = 8


class SharedMemoryPool:
    """Regions of shared memory that are made and registered once, and lent to one user at a time.

    `SharedMemoryPool` is for threads, and thread-safe; it is opened when it is made.
    `AsyncSharedMemoryPool` is for the tasks of one event loop; it is opened by `async with` or made
    by `await AsyncSharedMemoryPool.create(...)`.

    A region with living views at the end of its lease is set aside, and another is made in its
    place. Of those set aside the last `regions` are lent again when their views are gone; older
    ones are removed, but their memory lives with the views. Where the views of eight times
    `regions` leases live, no further region is made: OutOfMemoryError. A region whose request has
    no response, as at a timeout, is retired, and removed when the server has done with it; of these
    there are at most twice `regions` more.

    All are removed by `close`, at the end of the program, and when the pool is garbage-collected;
    those of killed processes when the next pool is made. In a forked child the pool cannot be used,
    and does not touch the parent's regions.

    Args:
        connection: With a server on this machine. The pool does not close it.
        regions: The number of regions that can be lent at once.
        region_bytes: The size of each.
        kind: "system" or "cuda", the latter in the memory of the GPU `device_id`.
        device_id: The GPU's.
        handle_sigterm: Whether to call `exit_on_sigterm`.

    Raises:
        OutOfMemoryError: There is no room in /dev/shm.
        UnsupportedError: The server cannot use the memory.
        RequestError: The server does not respond.
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
        check_settings(kind, regions, region_bytes)
        if handle_sigterm:
            exit_on_sigterm()
        self._connection = connection
        self._timeout_s = float(connection.options.timeout_s)
        self._states = RegionStates(regions)
        self._owned = OwnedRegions(connection.address, connection.options, kind, unregister_all)
        self._registration = RegionRegistration(
            connection,
            self._states,
            self._owned,
            region_bytes=region_bytes,
            device_id=device_id,
        )
        self._permits = Semaphore(regions)
        self._registering = Semaphore(1)
        self._closing = False
        self._closed = False
        self._finaliser = weakref.finalize(self, self._owned.remove_all_as_garbage)
        self._finaliser.atexit = False  # OwnedRegions has its own handler
        self.open()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return (
            f"<{type(self).__name__} of {len(self._owned.all())} {self._owned.kind} regions, "
            f"{self._connection.address}{state}>"
        )

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self) -> None:
        """Make and register the regions; raise what the constructor of SharedMemoryPool does."""
        try:
            self._registration.open()
        except BaseException:
            run_blocking(self._finaliser)
            raise

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._owned.all())

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lend a region for the block; wait for one for at most `timeout_s` seconds.

        Args:
            timeout_s: None is the connection's.

        Raises:
            RequestError: With the status "timeout" when no region becomes free.
        """
        self._check_lendable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        if not self._permits.acquire(limit_s):
            raise RequestError(
                "timeout",
                f"all {self._states.limit} shared-memory regions were in use for {limit_s:.3g} s; "
                "make the pool with more, or send less at once",
            )
        try:
            lease = Lease(self._take(deadline))
            try:
                yield lease
            finally:
                if self._owned.belong_to_this_process:
                    self._states.end(lease)
        finally:
            if self._owned.belong_to_this_process:
                self._permits.release()

    def infer(self, lease: Lease, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request that uses the lease's region, and return its response.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time.
        """
        self._check_usable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        generation = self._registration.generation
        try:
            with lease.sending():
                return self._connection.infer(call, timeout_s=limit_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        with self._alone(deadline):
            self._registration.register_again(generation, deadline)
        with lease.sending():
            return self._connection.infer(call, timeout_s=left_s(deadline))

    def close(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions.

        Meanwhile no region is lent, and requests of the leases continue. A server that does not
        respond delays it by a few seconds at most. When the wait is interrupted the pool stays
        open, to be closed again; the removal of regions itself is completed.
        """
        if not self._owned.belong_to_this_process or self._closing:
            return
        self._closing = True
        deadline = time.monotonic() + self._timeout_s
        permits = 0
        try:
            while permits < self._states.limit and self._permits.acquire(
                deadline - time.monotonic()
            ):
                permits += 1
            alone = self._registering.acquire(CLOSING_S)
            try:
                self._closed = True
                run_blocking(self._owned.remove_all)
            finally:
                if alone:
                    self._registering.release()
        finally:
            self._closing = False
            for _ in range(permits):
                self._permits.release()  # waiting calls then see that it is closed

    def _take(self, deadline: float) -> Region:
        self._check_lendable()
        region = self._states.take()
        if region is None:
            self._check_views()
            region = self._make(deadline)
            self._states.add_lent(region)
        return region

    def _make(self, deadline: float) -> Region:
        while True:
            with self._alone(deadline):
                region = self._registration.make(deadline)
            if region is not None:
                return region
            if time.monotonic() > deadline:
                raise RequestError(
                    "timeout",
                    f"the server still works on {len(self._states.retired())} requests that nobody "
                    "waits for any more, and may write to their shared memory; give it more time, "
                    "or send less at once",
                )
            sleep(WAIT_S)

    @contextlib.contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        """Keep others from making or registering regions during the block."""
        if not self._registering.acquire(deadline - time.monotonic()):
            raise RequestError(
                "timeout",
                "the server had not taken the shared-memory regions of others that wait for it in "
                "time; see whether it hangs, or give it more time",
            )
        try:
            yield
        finally:
            self._registering.release()

    def _check_lendable(self) -> None:
        self._check_usable()
        if self._closing:
            raise InvalidArgumentError("the pool of shared memory is being closed; make another")

    def _check_usable(self) -> None:
        if not self._owned.belong_to_this_process:
            raise UnsupportedError(
                "this pool of shared memory belongs to the parent process; make one after the fork"
            )
        if self._closed:
            raise InvalidArgumentError("the pool of shared memory is closed; make another one")

    def _check_views(self) -> None:
        """Raise OutOfMemoryError where too many ended leases have living views."""
        most = VIEWED_LEASES * self._states.limit
        if len(self._states.viewed()) < most:
            return
        gc.collect()  # exceptions keep views for a time, by their frames
        viewed = self._states.viewed()
        if len(viewed) >= most:
            names = ", ".join(sorted({name for names in viewed for name in names}))
            raise OutOfMemoryError(
                f"views of {len(viewed)} ended leases are kept ({names}), and each keeps the "
                "memory of its region; copy what is to be kept, as by numpy.array(view, copy=True)"
            )
