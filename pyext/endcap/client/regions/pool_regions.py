"""The regions of a pool: their states, and their removal at exit or garbage collection."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal

from endcap.client.address import Address
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import Kind, Region
from endcap.client.regions.sigterm import defer_sigterm


class RegionStates:
    """The states of one pool's regions. Thread-safe; the pool lends at most `limit` at once.

    At the end of its lease a region gets one of three states:

    - free: ready for the next lease;
    - held: views of the lease are alive; free when they are gone. At most `limit` regions are held,
      the longest held is retired for another;
    - retired: the server has not responded, or views were alive for long. It is never lent again,
      and removed when the server has unregistered it. Its memory lives as long as its views.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._free: list[Region] = []
        self._held: list[tuple[weakref.ref[Any], Region]] = []
        self._lent: list[Region] = []
        self._retired: list[Region] = []
        self._viewed: list[tuple[weakref.ref[Any], list[str]]] = []

    def take(self) -> Region | None:
        """Lend a free region; return None where one has to be made and passed to `add_lent`."""
        with self._lock:
            self._free_unviewed()
            if not self._free:
                return None
            self._lent.append(self._free.pop())
            return self._lent[-1]

    def add_free(self, region: Region) -> None:
        """Add a new region as free."""
        with self._lock:
            self._free.append(region)

    def add_lent(self, region: Region) -> None:
        """Add a new region as lent."""
        with self._lock:
            self._lent.append(region)

    def end(self, lease: Lease) -> None:
        """End a lease and set the state of its region."""
        region = lease.region
        views = lease.end()
        with self._lock:
            if views is not None:
                self._viewed = [*self._still_viewed(), (views, lease.viewed)]
            self._free_unviewed()
            self._lent.remove(region)
            if not lease.has_all_responses:
                self._retired.append(region)
            elif views is None:
                self._free.append(region)
            else:
                self._held.append((views, region))
                if len(self._held) > self.limit:
                    self._retired.append(self._held.pop(0)[1])

    def viewed(self) -> list[list[str]]:
        """Return, for each ended lease with living views, the names of the viewed tensors."""
        with self._lock:
            return [names for _, names in self._still_viewed()]

    def retire(self, region: Region) -> None:
        """Add a region as retired."""
        with self._lock:
            self._retired.append(region)

    def retired(self) -> list[Region]:
        """Return the retired regions, which the server has yet to unregister."""
        with self._lock:
            return list(self._retired)

    def forget(self, region: Region) -> None:
        """Delete a removed region from the lists."""
        with self._lock:
            for regions in (self._free, self._retired):
                if region in regions:
                    regions.remove(region)
            self._held = [pair for pair in self._held if pair[1] is not region]

    def usable(self) -> list[Region]:
        """Return the regions that have to be registered with the server."""
        with self._lock:
            return [*self._free, *(region for _, region in self._held), *self._lent]

    def _still_viewed(self) -> list[tuple[weakref.ref[Any], list[str]]]:
        return [pair for pair in self._viewed if pair[0]() is not None]

    def _free_unviewed(self) -> None:
        living = []
        for views, region in self._held:
            if views() is None:
                self._free.append(region)
            else:
                living.append((views, region))
        self._held = living


# Seconds within which a server has to unregister the regions of a pool at `close`, and those of all
# pools at the end of the program. The next pool removes the rest.
CLOSING_S = 5.0
EXIT_S = 3.0
_REQUEST_TIMEOUT_S = 2.0  # of one request of these

_living: weakref.WeakSet[OwnedRegions] = weakref.WeakSet()
UnregisterAll = Callable[["OwnedRegions", Address, ConnectionOptions, float], None]


class OwnedRegions:
    """The regions of one pool that exist, of one process and one server.

    Args:
        unregister_all: Unregisters the regions with the server at an address, and removes them.
    """

    def __init__(
        self,
        address: Address,
        options: ConnectionOptions,
        kind: Kind,
        unregister_all: UnregisterAll,
    ) -> None:
        self.kind = kind
        self._unregister_all = unregister_all
        self._address = address
        self._options = options
        self._process = os.getpid()
        self._regions: dict[str, Region] = {}
        _living.add(self)
        _register_exit_handler()

    @property
    def belong_to_this_process(self) -> bool:
        """Whether this is the process that made them, not a forked child."""
        return os.getpid() == self._process

    def all(self) -> list[Region]:
        """Return the regions."""
        return list(self._regions.values())

    def add(self, region: Region) -> None:
        """Add a region."""
        self._regions[region.name] = region

    def remove(self, region: Region) -> None:
        """Remove a region that is not registered with the server any more."""
        self._regions.pop(region.name, None)
        region.remove()

    def remove_all(self) -> None:
        """Unregister and remove all regions, within CLOSING_S.

        It uses a connection of its own: the pool's may be closed by then, busy in this very thread,
        or asyncio's. Where the server does not respond the regions are only removed. It may be
        called again after an interruption.
        """
        self._remove_all(time.monotonic() + CLOSING_S, "exit")

    def remove_all_as_garbage(self) -> None:
        """Do the same in a finaliser, within EXIT_S."""
        self._remove_all(time.monotonic() + EXIT_S, "send again")

    def remove_all_at_exit(self, deadline: float) -> None:
        """Do the same at the end of the program, until `deadline` of time.monotonic()."""
        self._remove_all(deadline, "nothing")

    def _remove_all(
        self, deadline: float, after_sigterm: Literal["exit", "send again", "nothing"]
    ) -> None:
        if not self.belong_to_this_process or not self._regions:
            return
        with defer_sigterm(after_sigterm):
            if time.monotonic() < deadline:
                self._unregister(deadline)
            for region in self.all():
                self.remove(region)

    def _unregister(self, deadline: float) -> None:
        timeout_s = min(_REQUEST_TIMEOUT_S, deadline - time.monotonic(), self._options.timeout_s)
        options = dataclasses.replace(self._options, timeout_s=max(timeout_s, 0.1), retries=0)
        with contextlib.suppress(RequestError, ClientError):
            self._unregister_all(self, self._address, options, deadline)


@functools.cache
def _register_exit_handler() -> None:
    atexit.register(_remove_all_pools)


def _remove_all_pools() -> None:
    deadline = time.monotonic() + EXIT_S
    for owned in list(_living):
        owned.remove_all_at_exit(deadline)
