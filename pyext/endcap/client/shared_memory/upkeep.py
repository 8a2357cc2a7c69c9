"""How a pool's regions are made, registered, registered again, and given back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from endcap.client.address import Address
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.shared_memory.capacity import check_capacity
from endcap.client.shared_memory.holdings import Holdings
from endcap.client.shared_memory.names import FOLDER, is_ours
from endcap.client.shared_memory.region import Kind, Region, SystemRegion
from endcap.client.shared_memory.region_file import remove_abandoned, remove_if_abandoned
from endcap.client.shared_memory.steps import Ask, Steps, Wait, Work, left_s, run
from endcap.client.shared_memory.stock import Stock
from endcap.errors import InvalidArgumentError, UnsupportedError

# Between two looks at whether the server has let go of regions, seconds.
WAIT_S = 0.05
_PROBE_BYTES = 4096
_KINDS: tuple[Kind, ...] = ("system", "cuda")
# What a connection says when the server is gone: nothing about its shared memory.
_NO_SERVER = {"unavailable", "timeout", "cancelled"}


class Upkeep:
    """The steps of one pool, on its stock and holdings. Each may raise RequestError."""

    def __init__(
        self, stock: Stock, holdings: Holdings, *, region_bytes: int, device_id: int
    ) -> None:
        self._stock = stock
        self._holdings = holdings
        self._region_bytes = region_bytes
        self._device_id = device_id
        self.generation = 0  # how often the regions were registered again

    def open(self) -> Steps[None]:
        """Removes what dead processes left, then makes and registers the regions."""
        swept = yield Work(remove_abandoned)
        if self._holdings.kind == "system":
            yield Work(partial(check_capacity, self._stock.limit, self._region_bytes))
        for _ in range(self._stock.limit):
            self._stock.add_free((yield from self._make()))
        if self._holdings.kind == "system" or (yield from self._sees_our_memory()):
            yield from _sweep_registrations(swept)

    def make(self, deadline: float) -> Steps[Region | None]:
        """Makes one more region, where one was given up or is held by views.

        None where the server has to let go of some before. Not to be run twice at once.
        """
        given_up = self._stock.given_up()
        if given_up:
            yield from self.release(given_up, deadline)
        if len(self._stock.given_up()) < 2 * self._stock.limit:
            return (yield from self._make(deadline))
        return None

    def register_again(self, generation: int, deadline: float) -> Steps[None]:
        """Registers what a server that was restarted does not know.

        generation: as it was when the request was sent; somebody else may have done it since. Not
        to be run twice at once.
        """
        if generation != self.generation:
            return
        known = yield Ask(partial(_registered, self._holdings.kind, deadline))
        for region in self._stock.usable():
            if region.name not in known:
                yield from _register(region, deadline)
        self.generation += 1

    def release(self, regions: Sequence[Region], deadline: float | None) -> Steps[list[Region]]:
        """Removes the regions that the server lets go of; returns the others.

        At the first question that is not answered it ends with the RequestError.
        """
        for region in regions:
            yield from _try_unregister(self._holdings.kind, region.name, deadline)
        known = yield Ask(partial(_registered, self._holdings.kind, deadline))
        for region in regions:
            if region.name not in known:
                self._stock.forget(region)
                self._holdings.remove(region)
        return [region for region in regions if region.name in known]

    def release_all(self, deadline: float) -> Steps[None]:
        """Removes all regions; waits for the server to let go of them until `deadline`.

        A question may take as long as the connection allows.
        """
        while (yield from self.release(self._holdings.all(), None)):
            if time.monotonic() > deadline:
                return
            yield Wait(WAIT_S)

    def _make(self, deadline: float | None = None) -> Steps[Region]:
        region: Region = yield Work(self._new)
        yield from _register(region, deadline)
        self._stock.forget(region)
        return region

    def _new(self) -> Region:
        region = new_region(self._holdings.kind, self._region_bytes, self._device_id)
        self._holdings.add(region)
        self._stock.give_up(region)  # until it is registered, which may be broken off
        return region

    def _sees_our_memory(self) -> Steps[bool]:
        probe = SystemRegion(_PROBE_BYTES)
        try:
            yield from _register(probe)
            yield Ask(partial(_unregister, "system", probe.name, None))
        except UnsupportedError:
            return False
        finally:
            probe.remove()
        return True


def new_region(kind: Kind, byte_size: int, device_id: int) -> Region:
    """Makes a region. Raises InvalidArgumentError, UnsupportedError, OutOfMemoryError, CudaError.

    device_id: the GPU's, of kind "cuda".
    """
    if kind == "system":
        return SystemRegion(byte_size)
    from endcap.client.shared_memory.cuda_region import CudaRegion

    return CudaRegion(byte_size, device_id)


def unregister_all(
    holdings: Holdings, address: Address, options: ConnectionOptions, deadline: float
) -> None:
    """Removes all regions that the server lets go of, by a connection of its own.

    Raises RequestError and ClientError.
    """
    upkeep = Upkeep(Stock(0), holdings, region_bytes=1, device_id=0)
    with Connection(address, options) as connection:
        run(connection, upkeep.release_all(deadline))


def check_settings(kind: str, regions: int, region_bytes: int) -> None:
    """Raises InvalidArgumentError for settings that no pool can have."""
    if kind not in _KINDS:
        raise InvalidArgumentError(f"shared memory of kind {kind!r} is unknown; use system or cuda")
    for name, value in (("regions", regions), ("region_bytes", region_bytes)):
        if value < 1:
            raise InvalidArgumentError(f"{name} is {value}; it must be at least 1")


def _register(region: Region, deadline: float | None = None) -> Steps[None]:
    arguments = region.registration()
    try:
        yield Ask(partial(_register_at, arguments, deadline))
    except RequestError as error:
        if error.status_name in _NO_SERVER:
            raise
        if "restricted" in str(error):
            raise UnsupportedError(
                f"the server lets no client register shared memory ({error}); start it with "
                "`endcap serve --client-shared-memory`, or do without shared memory"
            ) from error
        known: dict[str, str] = {}
        with contextlib.suppress(RequestError):  # then the first error counts
            known = yield Ask(partial(_registered, arguments["kind"], deadline))
        if region.name in known:
            return  # the answer to a first attempt was lost
        raise UnsupportedError(
            f"the server does not take a shared-memory region ({error}); it has to see this "
            "machine's /dev/shm (in containers: --ipc=host), to be allowed to open this user's "
            "files there and, from release 2.69 on, to be started with --allow-client-shm=true "
            "(`endcap serve --client-shared-memory`); or do without shared memory"
        ) from error


def _sweep_registrations(swept: Sequence[str]) -> Steps[None]:
    """Unregisters what dead owners left; only when the server took a region from our /dev/shm.

    Of another machine's clients the missing of a file here would say nothing. Nor does it of GPU
    memory, which clients in other containers share without our /dev/shm: of that only what was
    found here without an owner is unregistered. swept: the names of files that were removed so.
    """
    for kind in _KINDS:
        known: dict[str, str] = {}
        with contextlib.suppress(RequestError):  # of a server that was built without CUDA
            known = yield Ask(partial(_registered, kind, None))
        for name in filter(is_ours, known):
            was_here = kind == "system" or name in swept or (FOLDER / name).exists()
            if was_here and remove_if_abandoned(name):
                # Where a request uses it a later pool sweeps it.
                yield from _try_unregister(kind, name, None)


def _try_unregister(kind: Kind, name: str, deadline: float | None) -> Steps[None]:
    """Does nothing where the server refuses, because a request uses the region."""
    try:
        yield Ask(partial(_unregister, kind, name, deadline))
    except RequestError as error:
        if error.status_name in _NO_SERVER:
            raise


def _registered(kind: Kind, deadline: float | None, connection: Any) -> Any:
    return connection.registered(kind, timeout_s=left_s(deadline))


def _unregister(kind: Kind, name: str, deadline: float | None, connection: Any) -> Any:
    return connection.unregister_shared(kind, name, timeout_s=left_s(deadline))


def _register_at(arguments: dict[str, Any], deadline: float | None, connection: Any) -> Any:
    return connection.register_shared(**arguments, timeout_s=left_s(deadline))
