"""The memory limit of a pool's regions, their states, and registrations of dead clients."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from endcap.client import parse_address
from endcap.client._sync import region_registration
from endcap.client._sync.region_registration import RegionRegistration
from endcap.client.options import ConnectionOptions
from endcap.client.regions import region
from endcap.client.regions.lease import Lease
from endcap.client.regions.pool_regions import OwnedRegions, RegionStates
from endcap.client.regions.region import (
    FOLDER,
    SystemRegion,
    check_capacity,
    new_name,
    new_region_file,
)
from endcap.errors import OutOfMemoryError

MIB = 1 << 20


def meminfo(folder: Path, available_mib: int) -> Path:
    path = folder / "meminfo"
    path.write_text(f"MemTotal: 9 kB\nMemAvailable:   {available_mib * 1024} kB\nBuffers: 1 kB\n")
    return path


def test_half_of_the_available_memory_may_be_used(tmp_path: Path) -> None:
    told = meminfo(tmp_path, 8)
    check_capacity(4, MIB, folder=tmp_path, meminfo=told)
    with pytest.raises(OutOfMemoryError, match="5 shared-memory regions of 1048576 bytes") as found:
        check_capacity(5, MIB, folder=tmp_path, meminfo=told)
    for said in ("5 MiB in all", "8 MiB are available", "50%", "--region-bytes", "batch="):
        assert said in str(found.value)


def test_the_folder_is_the_other_limit(tmp_path: Path) -> None:
    status = os.statvfs(FOLDER)
    free = status.f_bavail * status.f_frsize
    told = meminfo(tmp_path, 8 * free // MIB)
    with pytest.raises(OutOfMemoryError, match=f"do not fit into {FOLDER}, where .*--shm-size"):
        check_capacity(4, free // 2, meminfo=told)


def test_a_kernel_without_memavailable(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9 kB\n")
    check_capacity(2, MIB, folder=tmp_path, meminfo=told)


def test_the_capacity_of_this_machine_is_read(tmp_path: Path) -> None:
    check_capacity(1, 1)
    with pytest.raises(OutOfMemoryError):
        check_capacity(1 << 20, 1 << 40)


def test_only_leases_with_living_views_are_listed() -> None:
    states = RegionStates(1)
    regions = [SystemRegion(4096) for _ in range(3)]
    kept = []
    try:
        for number, region in enumerate(regions):
            states.add_lent(region)
            lease = Lease(region)
            kept = [lease.empty(f"tensor {number}", (4,), np.int32)[0]]
            states.end(lease)
        assert states.viewed() == [["tensor 2"]]
        assert len(states._viewed) <= 2  # nor does it grow where nobody asks
        kept.clear()
        assert states.viewed() == []
    finally:
        for region in regions:
            region.remove()


class Registrations:
    """What a server has registered; unregistering is noted."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self._known = {kind: dict.fromkeys(names, "")}
        self.gone: list[str] = []

    def registered(self, kind: str, *, timeout_s: float | None) -> dict[str, str]:
        return self._known.get(kind, {})

    def unregister_shared(self, kind: str, name: str, *, timeout_s: float | None) -> None:
        assert name in self._known[kind]
        self.gone.append(name)


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_only_registrations_of_dead_clients_go(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pools of tests in other processes sweep /dev/shm, too.
    for module in (region, region_registration):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "new").touch()
    abandoned = new_name((tmp_path / "new").stat().st_ino)
    (tmp_path / "new").rename(tmp_path / abandoned)
    living = new_region_file()
    removed_before, of_who_knows_whom = new_name(1), new_name(1)
    server = Registrations(
        kind, [living.name, abandoned, removed_before, of_who_knows_whom, "somebody_elses"]
    )
    try:
        registration = RegionRegistration(
            server,  # type: ignore[arg-type]
            RegionStates(1),
            OwnedRegions(parse_address("127.0.0.1"), ConnectionOptions(), kind, lambda *_: None),  # type: ignore[arg-type]
            region_bytes=1,
            device_id=0,
        )
        registration._sweep_registrations([removed_before])
    finally:
        living.remove()
    # A client in another container shares its GPU memory, but not its /dev/shm.
    assert of_who_knows_whom not in server.gone or kind == "system"
    assert {abandoned, removed_before} <= set(server.gone)
    assert set(server.gone) <= {abandoned, removed_before, of_who_knows_whom}
