"""Which registrations a new pool takes for those of dead clients, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.client import parse_address
from endcap.client._sync import region_registration
from endcap.client._sync.region_registration import RegionRegistration
from endcap.client.options import ConnectionOptions
from endcap.client.regions import region
from endcap.client.regions.pool_regions import OwnedRegions, RegionStates
from endcap.client.regions.region import new_name, new_region_file


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
    abandoned = new_name()
    (tmp_path / abandoned).touch()
    living = new_region_file()
    removed_before, of_who_knows_whom = new_name(), new_name()
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
