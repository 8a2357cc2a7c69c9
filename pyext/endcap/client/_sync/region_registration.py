"""Registration of a pool's regions with a server, and their removal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from endcap.client.address import Address
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.regions.pool_regions import OwnedRegions, RegionStates
from endcap.client.regions.region import (
    FOLDER,
    KINDS,
    Kind,
    Region,
    SystemRegion,
    check_capacity,
    is_ours,
    remove_abandoned,
    remove_if_abandoned,
)
from endcap.client.synchronization import run_blocking, sleep
from endcap.errors import UnsupportedError

# Seconds between two checks whether the server has unregistered regions.
WAIT_S = 0.05
_SHORTEST_S = 0.1  # the minimum timeout of a request
_PROBE_BYTES = 4096
# The statuses of a lost server, which say nothing about its shared memory.
_NO_SERVER = {"unavailable", "timeout", "cancelled"}


class RegionRegistration:
    """The regions of one pool with its server. Every method may raise RequestError."""

    def __init__(
        self,
        connection: Connection,
        states: RegionStates,
        owned: OwnedRegions,
        *,
        region_bytes: int,
        device_id: int,
    ) -> None:
        self._connection = connection
        self._states = states
        self._owned = owned
        self._region_bytes = region_bytes
        self._device_id = device_id
        self.generation = 0  # how often the regions were registered again

    def open(self) -> None:
        """Remove the regions of dead processes, then make and register the pool's."""
        swept = run_blocking(remove_abandoned)
        if self._owned.kind == "system":
            run_blocking(check_capacity, self._states.limit, self._region_bytes)
        for _ in range(self._states.limit):
            self._states.add_free(self._make())
        if self._owned.kind == "system" or self._sees_our_memory():
            self._sweep_registrations(swept)

    def make(self, deadline: float) -> Region | None:
        """Make one more region, where one is retired or held by views.

        Return None where the server has to unregister retired ones before. Not reentrant.
        """
        retired = self._states.retired()
        if retired:
            self.release(retired, deadline)
        if len(self._states.retired()) < 2 * self._states.limit:
            return self._make(deadline)
        return None

    def register_again(self, generation: int, deadline: float) -> None:
        """Register the regions that a restarted server does not have.

        Args:
            generation: Its value when the request was sent: another request may have caused a
                registration since. Not reentrant.
            deadline: On the clock time.monotonic().
        """
        if generation != self.generation:
            return
        known = self._registered(self._owned.kind, deadline)
        for region in self._states.usable():
            if region.name not in known:
                self._register(region, deadline)
        self.generation += 1

    def release(self, regions: Sequence[Region], deadline: float | None) -> list[Region]:
        """Remove the regions that the server unregisters; return the others.

        Raises RequestError at the first request without a response.
        """
        for region in regions:
            self._try_unregister(self._owned.kind, region.name, deadline)
        known = self._registered(self._owned.kind, deadline)
        for region in regions:
            if region.name not in known:
                self._states.forget(region)
                self._owned.remove(region)
        return [region for region in regions if region.name in known]

    def release_all(self, deadline: float) -> None:
        """Remove all regions; wait for the server to unregister them until `deadline`.

        A request may take as long as the connection allows.
        """
        while self.release(self._owned.all(), None):
            if time.monotonic() > deadline:
                return
            sleep(WAIT_S)

    def _make(self, deadline: float | None = None) -> Region:
        region: Region = run_blocking(self._new)
        self._register(region, deadline)
        self._states.forget(region)
        return region

    def _new(self) -> Region:
        region = new_region(self._owned.kind, self._region_bytes, self._device_id)
        self._owned.add(region)
        self._states.retire(region)  # until it is registered, which may be interrupted
        return region

    def _sees_our_memory(self) -> bool:
        probe = SystemRegion(_PROBE_BYTES)
        try:
            self._register(probe)
            self._connection.unregister_shared("system", probe.name)
        except UnsupportedError:
            return False
        finally:
            probe.remove()
        return True

    def _register(self, region: Region, deadline: float | None = None) -> None:
        registration = region.registration()
        try:
            self._connection.register_shared(**registration, timeout_s=left_s(deadline))
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
                known = self._registered(registration["kind"], deadline)
            if region.name in known:
                return  # the response to a first attempt was lost
            raise UnsupportedError(
                f"the server does not take a shared-memory region ({error}); it has to see this "
                "machine's /dev/shm (in containers: --ipc=host), to be allowed to open this user's "
                "files there and, from release 2.69 on, to be started with --allow-client-shm=true "
                "(`endcap serve --client-shared-memory`); or do without shared memory"
            ) from error

    def _sweep_registrations(self, swept: Sequence[str]) -> None:
        """Unregister regions of dead owners, where the server shares our /dev/shm.

        For clients of another machine a missing file here means nothing. Nor does it for GPU
        memory, which clients in other containers share without our /dev/shm: of that only regions
        are unregistered whose file was here, without an owner.

        Args:
            swept: The names of the abandoned files that were removed.
        """
        for kind in KINDS:
            known: dict[str, str] = {}
            with contextlib.suppress(RequestError):  # of a server that was built without CUDA
                known = self._registered(kind, None)
            for name in filter(is_ours, known):
                was_here = kind == "system" or name in swept or (FOLDER / name).exists()
                if was_here and remove_if_abandoned(name):
                    # Where a request uses it a later pool sweeps it.
                    self._try_unregister(kind, name, None)

    def _try_unregister(self, kind: Kind, name: str, deadline: float | None) -> None:
        """Do nothing where the server refuses, because a request uses the region."""
        try:
            self._connection.unregister_shared(kind, name, timeout_s=left_s(deadline))
        except RequestError as error:
            if error.status_name in _NO_SERVER:
                raise

    def _registered(self, kind: Kind, deadline: float | None) -> dict[str, str]:
        return self._connection.registered(kind, timeout_s=left_s(deadline))


def new_region(kind: Kind, byte_size: int, device_id: int) -> Region:
    """Return a new region.

    Args:
        kind: "system" or "cuda".
        byte_size: Its size.
        device_id: The GPU's, of kind "cuda".

    Raises:
        InvalidArgumentError: The size is below 1.
        UnsupportedError: /dev/shm cannot be used, or a package for CUDA is missing.
        OutOfMemoryError: /dev/shm has no room.
        CudaError: The GPU has no room.
    """
    if kind == "system":
        return SystemRegion(byte_size)
    from endcap.client.regions.cuda_region import CudaRegion

    return CudaRegion(byte_size, device_id)


def unregister_all(
    owned: OwnedRegions, address: Address, options: ConnectionOptions, deadline: float
) -> None:
    """Remove all regions that the server unregisters, over a connection of its own.

    Raises RequestError and ClientError.
    """
    with Connection(address, options) as connection:
        registration = RegionRegistration(
            connection, RegionStates(0), owned, region_bytes=1, device_id=0
        )
        registration.release_all(deadline)


def left_s(deadline: float | None) -> float | None:
    """Return the seconds until `deadline`, not fewer than a request needs; None without one."""
    return None if deadline is None else max(deadline - time.monotonic(), _SHORTEST_S)
