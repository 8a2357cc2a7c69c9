"""Which regions of a pool are free, lent, held by views, or given up. Does no I/O."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from endcap.client.regions.lease import Lease
from endcap.client.regions.region import Region


class Stock:
    """The regions of one pool. Thread-safe; who lends sees to it that at most `limit` are lent.

    A region comes back from a lease into one of three places:

    - free, ready for the next lease;
    - held, where views of the lease live on: free again when they are gone. At most `limit` are
      kept so, the longest held is given up for another;
    - given up, where the server has not answered, or views may look into it for long: it is never
      lent again, and waits for the server to let go of it. Its memory lives as long as its views.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._free: list[Region] = []
        self._held: list[tuple[weakref.ref[Any], Region]] = []
        self._lent: list[Region] = []
        self._given_up: list[Region] = []
        self._viewed: list[tuple[weakref.ref[Any], list[str]]] = []

    def take(self) -> Region | None:
        """Lend a region; None where a new one has to be made, and given to `add_lent`."""
        with self._lock:
            self._take_back_held()
            if not self._free:
                return None
            self._lent.append(self._free.pop())
            return self._lent[-1]

    def add_free(self, region: Region) -> None:
        """Take in a new region."""
        with self._lock:
            self._free.append(region)

    def add_lent(self, region: Region) -> None:
        """Take in a new region that is lent already."""
        with self._lock:
            self._lent.append(region)

    def end(self, lease: Lease) -> None:
        """End a lease, and take its region back."""
        region = lease.region
        views = lease.end()
        with self._lock:
            if views is not None:
                self._viewed = [*self._still_viewed(), (views, lease.viewed)]
            self._take_back_held()
            self._lent.remove(region)
            if not lease.is_answered:
                self._given_up.append(region)
            elif views is None:
                self._free.append(region)
            else:
                self._held.append((views, region))
                if len(self._held) > self.limit:
                    self._given_up.append(self._held.pop(0)[1])

    def viewed(self) -> list[list[str]]:
        """Return of each ended lease of which views live on what they were views of."""
        with self._lock:
            return [names for _, names in self._still_viewed()]

    def give_up(self, region: Region) -> None:
        """Take in a region that is not to be lent."""
        with self._lock:
            self._given_up.append(region)

    def given_up(self) -> list[Region]:
        """Return the regions that wait for the server to let go of them."""
        with self._lock:
            return list(self._given_up)

    def forget(self, region: Region) -> None:
        """Strike out a region that exists no more."""
        with self._lock:
            for regions in (self._free, self._given_up):
                if region in regions:
                    regions.remove(region)
            self._held = [pair for pair in self._held if pair[1] is not region]

    def usable(self) -> list[Region]:
        """Return the regions that have to be registered with the server."""
        with self._lock:
            return [*self._free, *(region for _, region in self._held), *self._lent]

    def _still_viewed(self) -> list[tuple[weakref.ref[Any], list[str]]]:
        return [pair for pair in self._viewed if pair[0]() is not None]

    def _take_back_held(self) -> None:
        living = []
        for views, region in self._held:
            if views() is None:
                self._free.append(region)
            else:
                living.append((views, region))
        self._held = living
