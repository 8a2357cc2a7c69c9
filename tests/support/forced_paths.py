"""Runs the tests of a module once on each path that its stages have on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import endcap


def common_paths(*stages: str) -> list[str]:
    """The paths that all the stages can take on the CPU: forcing one is for every stage."""
    rows = [i for i in endcap.implementations() if i.available and i.path != "cuda"]
    available = [(i.stage, i.path) for i in rows]
    paths = dict.fromkeys(path for _, path in available)
    return [path for path in paths if all((stage, path) in available for stage in stages)]


def on_each_path(*stages: str) -> Any:
    """A fixture for the whole module; it fails when the last of the stages took another path."""

    @pytest.fixture(scope="module", autouse=True, params=common_paths(*stages))
    def forced_path(request: pytest.FixtureRequest) -> Iterator[None]:
        endcap.force_implementation(request.param)
        yield
        endcap.force_implementation("auto")
        took = {i.stage: i.path for i in endcap.implementations() if i.ran_last}
        assert took[stages[-1]] == request.param

    return forced_path
