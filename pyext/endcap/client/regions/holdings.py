"""What a pool has to give back, and giving it back when the pool cannot: at exit, as garbage."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import time
import weakref
from collections.abc import Callable
from typing import Literal

from endcap.client.address import Address
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.regions.exits import sigterm_waits
from endcap.client.regions.region import Kind, Region

# How long a server may take to let go of a pool's regions, seconds: of one that is closed, and of
# all that there are at the end of the program. The next pool sweeps what is left.
CLOSING_S = 5.0
EXIT_S = 3.0
_ANSWER_S = 2.0  # for one question of these; a server that takes longer hangs

_living: weakref.WeakSet[Holdings] = weakref.WeakSet()
UnregisterAll = Callable[["Holdings", Address, ConnectionOptions, float], None]


class Holdings:
    """The regions of one pool that exist, of one process and one server.

    Args:
        unregister_all: Asks a server, by its address, to let go of the regions, and removes those.
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
        _give_back_at_exit()

    @property
    def are_ours(self) -> bool:
        """Whether this is the process that made them, not a forked child."""
        return os.getpid() == self._process

    def all(self) -> list[Region]:
        """Return the regions."""
        return list(self._regions.values())

    def add(self, region: Region) -> None:
        """Take in a region."""
        self._regions[region.name] = region

    def remove(self, region: Region) -> None:
        """Remove a region that the server does not know any more."""
        self._regions.pop(region.name, None)
        region.remove()

    def give_back(self) -> None:
        """Unregister and removes all regions; take CLOSING_S at the most, and less at exit.

        It has a connection of its own: the pool's may be gone by then, busy in this very thread, or
        asyncio's. Where the server does not answer there is only the removing. When it is
        interrupted it can be done again.
        """
        self._give_back(time.monotonic() + CLOSING_S, "exit")

    def give_back_as_garbage(self) -> None:
        """Do the same in a finaliser, and faster."""
        self._give_back(time.monotonic() + EXIT_S, "send again")

    def give_back_at_exit(self, deadline: float) -> None:
        """Do the same when the program ends. deadline: on the clock time.monotonic."""
        self._give_back(deadline, "nothing")

    def _give_back(
        self, deadline: float, after_sigterm: Literal["exit", "send again", "nothing"]
    ) -> None:
        if not self.are_ours or not self._regions:
            return
        with sigterm_waits(after_sigterm):
            if time.monotonic() < deadline:
                self._unregister(deadline)
            for region in self.all():
                self.remove(region)

    def _unregister(self, deadline: float) -> None:
        timeout_s = min(_ANSWER_S, deadline - time.monotonic(), self._options.timeout_s)
        options = dataclasses.replace(self._options, timeout_s=max(timeout_s, 0.1), retries=0)
        with contextlib.suppress(RequestError, ClientError):
            self._unregister_all(self, self._address, options, deadline)


@functools.cache
def _give_back_at_exit() -> None:
    atexit.register(_give_back_all)


def _give_back_all() -> None:
    deadline = time.monotonic() + EXIT_S
    for holdings in list(_living):
        holdings.give_back_at_exit(deadline)
