"""Which registrations a new pool takes for those of dead clients, without a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from endcap.client.shared_memory.names import FOLDER, new_name
from endcap.client.shared_memory.region_file import new_region_file
from endcap.client.shared_memory.steps import run
from endcap.client.shared_memory.upkeep import _sweep_registrations


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


@pytest.fixture
def abandoned() -> Iterator[str]:
    name = new_name()
    (FOLDER / name).touch()
    yield name
    (FOLDER / name).unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_only_registrations_of_dead_clients_go(kind: str, abandoned: str) -> None:
    living = new_region_file()
    removed_before, of_who_knows_whom = new_name(), new_name()
    server = Registrations(
        kind, [living.name, abandoned, removed_before, of_who_knows_whom, "somebody_elses"]
    )
    try:
        run(server, _sweep_registrations([removed_before]))
    finally:
        living.remove()
    # A client in another container shares its GPU memory, but not its /dev/shm.
    assert of_who_knows_whom not in server.gone or kind == "system"
    assert {abandoned, removed_before} <= set(server.gone)
    assert set(server.gone) <= {abandoned, removed_before, of_who_knows_whom}
