"""What the pools for threads and for asyncio have in common."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

from endcap.client.errors import RequestError
from endcap.client.shared_memory.holdings import Holdings
from endcap.client.shared_memory.region import Kind
from endcap.client.shared_memory.stock import Stock
from endcap.client.shared_memory.upkeep import Upkeep, check_settings, unregister_all
from endcap.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError

# How many ended leases may have living views, by the number of regions: their memory stays.
VIEWED_LEASES = 8


class PoolBase:
    """The state of a pool; see SharedMemoryPool for the arguments."""

    def __init__(
        self, connection: Any, kind: Kind, regions: int, region_bytes: int, device_id: int
    ) -> None:
        check_settings(kind, regions, region_bytes)
        self._timeout_s = float(connection.options.timeout_s)
        self._stock = Stock(regions)
        self._holdings = Holdings(connection.address, connection.options, kind, unregister_all)
        self._upkeep = Upkeep(
            self._stock, self._holdings, region_bytes=region_bytes, device_id=device_id
        )
        self._closing = False
        self._closed = False
        self._finaliser = weakref.finalize(self, self._holdings.give_back_as_garbage)
        self._finaliser.atexit = False  # the holdings see to that themselves

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._holdings.all())

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

    def _none_free(self, timeout_s: float) -> RequestError:
        return RequestError(
            "timeout",
            f"all {self._stock.limit} shared-memory regions were in use for {timeout_s:.3g} s; "
            "make the pool with more, or send less at once",
        )

    def _check_views(self) -> None:
        """Raises OutOfMemoryError where so many regions live on for views that no more is made."""
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

    def _check_time_for_another(self, deadline: float) -> None:
        """Raises RequestError after `deadline`."""
        if time.monotonic() > deadline:
            raise RequestError(
                "timeout",
                f"the server still works on {len(self._stock.given_up())} requests that nobody "
                "waits for any more, and may write to their shared memory; give it more time, or "
                "send less at once",
            )


def regions_not_ready() -> RequestError:
    """Returns the error of who waited for others that make or register regions."""
    return RequestError(
        "timeout",
        "the server had not taken the shared-memory regions of others that wait for it in time; "
        "see whether it hangs, or give it more time",
    )
