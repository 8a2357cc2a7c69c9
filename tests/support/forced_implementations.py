"""Runs the tests of a module once on each implementation that its stages have on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import endcap


def common_implementations(*stages: str) -> list[str]:
    """The implementations that all the stages have on the CPU: forcing one is for every stage."""
    rows = [i for i in endcap.implementations() if i.available and i.kind != "cuda"]
    available = [(i.stage, i.kind) for i in rows]
    kinds = dict.fromkeys(kind for _, kind in available)
    return [kind for kind in kinds if all((stage, kind) in available for stage in stages)]


def on_each_implementation(*stages: str) -> Any:
    """A fixture for the whole module; it fails when the last of the stages ran another one."""

    @pytest.fixture(scope="module", autouse=True, params=common_implementations(*stages))
    def forced_implementation(request: pytest.FixtureRequest) -> Iterator[None]:
        endcap.force_implementation(request.param)
        yield
        endcap.force_implementation("auto")
        took = {i.stage: i.kind for i in endcap.implementations() if i.ran_last}
        assert took[stages[-1]] == request.param

    return forced_implementation
