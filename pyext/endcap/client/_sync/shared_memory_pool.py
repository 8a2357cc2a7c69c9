# Made by scripts/generate_sync_client.py: change ../_async/shared_memory_pool.py instead.

"""A pool of shared-memory regions that are registered with a server."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from collections.abc import Iterator

from endcap.client._sync.connection import Connection
from endcap.client._sync.region_registration import (
    WAIT_S,
    RegionRegistration,
    left_s,
    unregister_all,
)
from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.regions.exits import exit_on_sigterm
from endcap.client.regions.holdings import CLOSING_S, Holdings
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import Kind, Region, check_settings
from endcap.client.regions.stock import Stock
from endcap.client.synchronization import Semaphore, in_thread, sleep
from endcap.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError

# How many ended leases may have living views, by the number of regions: their memory stays.
VIEWED_LEASES = 8


class RegionPool:
    """A pool that `open` makes the regions of; see SharedMemoryPool for the arguments."""

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
        self._stock = Stock(regions)
        self._holdings = Holdings(connection.address, connection.options, kind, unregister_all)
        self._registration = RegionRegistration(
            connection,
            self._stock,
            self._holdings,
            region_bytes=region_bytes,
            device_id=device_id,
        )
        self._permits = Semaphore(regions)
        self._registering = Semaphore(1)
        self._closing = False
        self._closed = False
        self._finaliser = weakref.finalize(self, self._holdings.give_back_as_garbage)
        self._finaliser.atexit = False  # the holdings see to that themselves

    def open(self) -> None:
        """Make and registers the regions. Raises as SharedMemoryPool does."""
        try:
            self._registration.open()
        except BaseException:
            in_thread(self._finaliser)
            raise

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._holdings.all())

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lend a region for the block; wait for one for at most `timeout_s` seconds.

        Args:
            timeout_s: None is the connection's. Raises RequestError, "timeout", when none gets
                free.
        """
        self._check_lendable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        if not self._permits.acquire(limit_s):
            raise RequestError(
                "timeout",
                f"all {self._stock.limit} shared-memory regions were in use for {limit_s:.3g} s; "
                "make the pool with more, or send less at once",
            )
        try:
            lease = Lease(self._take(deadline))
            try:
                yield lease
            finally:
                if self._holdings.are_ours:
                    self._stock.end(lease)
        finally:
            if self._holdings.are_ours:
                self._permits.release()

    def infer(self, lease: Lease, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request that uses the lease's region. Raises RequestError.

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

        Meanwhile nothing more is lent, and requests of the leases go on. A server that does not
        respond is waited for some seconds more at the most. When the waiting is interrupted the
        pool goes on as before, to be closed again; once it removes regions it ends with that.
        """
        if not self._holdings.are_ours or self._closing:
            return
        self._closing = True
        deadline = time.monotonic() + self._timeout_s
        permits = 0
        try:
            while permits < self._stock.limit and self._permits.acquire(
                deadline - time.monotonic()
            ):
                permits += 1
            alone = self._registering.acquire(CLOSING_S)
            try:
                self._closed = True
                in_thread(self._holdings.give_back)
            finally:
                if alone:
                    self._registering.release()
        finally:
            self._closing = False
            for _ in range(permits):
                self._permits.release()  # those who wait learn that it is closed

    def _take(self, deadline: float) -> Region:
        self._check_lendable()
        region = self._stock.take()
        if region is None:
            self._check_views()
            region = self._make(deadline)
            self._stock.add_lent(region)
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
                    f"the server still works on {len(self._stock.given_up())} requests that nobody "
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
        if not self._holdings.are_ours:
            raise UnsupportedError(
                "this pool of shared memory belongs to the parent process; make one after the fork"
            )
        if self._closed:
            raise InvalidArgumentError("the pool of shared memory is closed; make another one")

    def _check_views(self) -> None:
        """Raise OutOfMemoryError where so many regions live on for views that no more is made."""
        most = VIEWED_LEASES * self._stock.limit
        if len(self._stock.viewed()) < most:
            return
        gc.collect()  # exceptions keep views for a time, by their frames
        viewed = self._stock.viewed()
        if len(viewed) >= most:
            names = ", ".join(sorted({name for names in viewed for name in names}))
            raise OutOfMemoryError(
                f"views of {len(viewed)} ended leases are kept ({names}), and each keeps the "
                "memory of its region; copy what is to be kept, as by numpy.array(view, copy=True)"
            )
