"""Fixtures of the Python tests, and Hypothesis' profile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "endcap",
    deadline=None,  # a first call starts threads; time is no property of a result
    derandomize=True,  # the same examples on every machine
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("endcap")


@pytest.fixture
def unforced() -> Iterator[None]:
    """Ends any forced implementation after the test."""
    import endcap
    from endcap import _core

    yield
    endcap.force_implementation("auto")
    _core.force_simd_target("")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made during the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder
