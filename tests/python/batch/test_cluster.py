"""The start of a Ray cluster for a run: what is repeated, and what is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from endcap.batch import cluster
from endcap.batch.errors import BatchError

LATE = Exception("The current node timed out during startup. This could happen because ...")


def failing_ray(*errors: Exception | None) -> tuple[Any, list[str]]:
    """A stand-in for the module, whose starts fail in this order: a real one cannot be delayed."""
    calls: list[str] = []
    waiting = list(errors)

    def init(**options: object) -> None:
        calls.append(str(options["address"]))
        if (error := waiting.pop(0)) is not None:
            raise error

    def shutdown() -> None:
        calls.append("shutdown")

    return SimpleNamespace(init=init, shutdown=shutdown), calls


def test_a_node_that_starts_late_is_started_again() -> None:
    ray, calls = failing_ray(LATE, LATE, None)
    cluster._start(ray, None)
    assert calls == ["local", "shutdown", "local", "shutdown", "local"]


@pytest.mark.parametrize(
    ("errors", "starts"), [((LATE, LATE, LATE), 3), ((ValueError("no such option"),), 1)]
)
def test_a_cluster_that_does_not_start_is_an_error(
    errors: tuple[Exception, ...], starts: int
) -> None:
    ray, calls = failing_ray(*errors)
    with pytest.raises(BatchError, match=f"no Ray cluster on this machine: {str(errors[-1])[:12]}"):
        cluster._start(ray, None)
    assert calls.count("local") == calls.count("shutdown") == starts


def test_a_folder_that_ray_cannot_write_to_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/proc/endcap")
    with pytest.raises(BatchError, match=r"'/proc/endcap'; set TMPDIR to a folder"):
        cluster._start(pytest.importorskip("ray"), None)
