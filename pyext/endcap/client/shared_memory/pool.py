"""A pool of shared-memory regions for threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.shared_memory.base import PoolBase, regions_not_ready
from endcap.client.shared_memory.exits import exit_on_sigterm
from endcap.client.shared_memory.holdings import CLOSING_S
from endcap.client.shared_memory.lease import Lease
from endcap.client.shared_memory.region import Kind, Region
from endcap.client.shared_memory.steps import left_s, run
from endcap.client.shared_memory.upkeep import WAIT_S

if TYPE_CHECKING:
    from endcap.client.connection import Connection


class SharedMemoryPool(PoolBase):
    """Regions that are made and registered once, and lent to one user at a time. Thread-safe.

    connection: with a server on this machine. The pool does not close it.
    regions: how many can be lent at once. region_bytes: the size of each.
    kind: "system" or "cuda", the latter in the memory of the GPU `device_id`.
    handle_sigterm: where SIGTERM has its default action and the pool is made in the main thread,
        SIGTERM becomes a SystemExit(143) there, so that blocks end and nothing is left behind.

    A region into which views look when its lease ends is set aside, and another is made in its
    place. Of those set aside the last `regions` are lent again when their views are gone; older
    ones are removed, but their memory lives with the views. Where the views of eight times
    `regions` leases live, no further region is made: OutOfMemoryError. A region whose request has
    no answer, as at a timeout, is given up, and removed when the server has done with it; of these
    there are at most twice `regions` more.

    All are removed by `close`, at the end of the program, and when the pool is garbage; those of
    killed processes when the next pool is made. In a forked child the pool is of no use, and
    nothing that becomes of it there touches the parent's.

    Raises OutOfMemoryError without room in /dev/shm, UnsupportedError where the server cannot use
    the memory, RequestError where it does not answer.
    """

    def __init__(
        self,
        connection: Connection,
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
        self._permits = threading.Semaphore(self._stock.limit)
        self._upkeep_lock = threading.Lock()
        try:
            run(connection, self._upkeep.open())
        except BaseException:
            self._finaliser()
            raise

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lends a region for the block; waits for one for at most `timeout_s` seconds.

        timeout_s: None is the connection's. Raises RequestError, "timeout", when none gets free.
        """
        self._check_lendable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        if not self._permits.acquire(timeout=max(limit_s, 0)):
            raise self._none_free(limit_s)
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
        """Sends a request that uses the lease's region. Raises RequestError.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time.
        """
        self._check_usable()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        generation = self._upkeep.generation
        try:
            with lease.sending():
                return self._connection.infer(call, timeout_s=limit_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        with self._upkeep_alone(deadline):
            run(self._connection, self._upkeep.register_again(generation, deadline))
        with lease.sending():
            return self._connection.infer(call, timeout_s=left_s(deadline))

    def close(self) -> None:
        """Waits for the leases, as long as a request may take, and removes all regions.

        Meanwhile nothing more is lent, and requests of the leases go on. A server that does not
        answer is waited for some seconds more at the most. When the waiting is interrupted the pool
        goes on as before, to be closed again.
        """
        if not self._holdings.are_ours or self._closing:
            return
        self._closing = True
        deadline = time.monotonic() + self._timeout_s
        permits = 0
        try:
            while permits < self._stock.limit and self._permits.acquire(
                timeout=max(deadline - time.monotonic(), 0)
            ):
                permits += 1
            alone = self._upkeep_lock.acquire(timeout=CLOSING_S)
            try:
                self._closed = True
                self._holdings.give_back()
            finally:
                if alone:
                    self._upkeep_lock.release()
        finally:
            self._closing = False
            if permits:
                self._permits.release(permits)  # those who wait learn that it is closed

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
            with self._upkeep_alone(deadline):
                region = run(self._connection, self._upkeep.make(deadline))
            if region is not None:
                return region
            self._check_time_for_another(deadline)
            time.sleep(WAIT_S)

    @contextlib.contextmanager
    def _upkeep_alone(self, deadline: float) -> Iterator[None]:
        if not self._upkeep_lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise regions_not_ready()
        try:
            yield
        finally:
            self._upkeep_lock.release()
