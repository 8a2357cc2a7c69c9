"""Runs tests once on each implementation that their stages have on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import endcap
from endcap import _core


def common_implementations(*stages: str) -> list[str]:
    """The implementations that all the stages have on the CPU: forcing one is for every stage."""
    rows = [i for i in endcap.implementations() if i.available and i.kind != "cuda"]
    available = [(i.stage, i.kind) for i in rows]
    kinds = dict.fromkeys(kind for _, kind in available)
    return [kind for kind in kinds if all((stage, kind) in available for stage in stages)]


def on_each_implementation(*stages: str) -> Any:
    """A fixture for the whole module; it fails when the last of the stages ran another one."""
    return _fixture(stages[-1], common_implementations(*stages))


def on_each_target(stage: str) -> Any:
    """The same on the scalar implementation and every instruction set of this machine."""
    return _fixture(stage, ["scalar", *_core.simd_targets()])


def _fixture(stage: str, names: list[str]) -> Any:
    @pytest.fixture(scope="module", autouse=True, params=names)
    def forced_implementation(request: pytest.FixtureRequest) -> Iterator[None]:
        kind = force(request.param)
        yield
        force("auto")
        assert (kind, stage) in _took()

    return forced_implementation


def force(name: str) -> str:
    """Force an implementation, or simd with an instruction set; return which implementation."""
    target = name if name in _core.simd_targets() else ""
    kind = "simd" if target else name
    endcap.force_implementation(kind)
    _core.force_simd_target(target)
    return kind


def run_on_scalar_and_targets(stage: str, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Return the results of the scalar implementation and of every instruction set."""
    results = []
    try:
        for name in ("scalar", *_core.simd_targets()):
            kind = force(name)
            results.append(call())
            assert (kind, stage) in _took()
    finally:
        force("auto")
    return results[0], results[1:]


def _took() -> list[tuple[str, str]]:
    return [(i.kind, i.stage) for i in endcap.implementations() if i.ran_last]
