"""The benchmark of connections: its ways, its tables, and the page that holds them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import connections
from endcap.results import ImageResult


def timing(milliseconds: float) -> dict[str, Any]:
    return {"median_ms": milliseconds, "low_ms": 0.0, "high_ms": 0.0, "rounds": 9}


def document() -> dict[str, Any]:
    return {
        "machine": {"cpu": "c", "cpus": 2, "date": "2000-01-01T00:00", "commit": "0"},
        "image_kb": 83,
        "ways": [
            {"name": connections.KEPT, "transport": "grpc", **timing(11.04)},
            {"name": connections.KEPT, "transport": "http", **timing(12.0)},
            {"name": connections.PINGED, "transport": "grpc", **timing(11.2)},
        ],
        "explicit": {
            "request": timing(11.3),
            "request_while_reloading": timing(10.6),
            "steps": {"detector": {"load": timing(20.0), "unload": timing(2.5)}},
        },
    }


def test_each_transport_has_its_reference_first() -> None:
    ways = [(way.name, way.transport) for way in connections.ways()]
    assert len(set(ways)) == len(ways) == 7
    for transport in connections.TRANSPORTS:
        of_it = [name for name, each in ways if each == transport]
        assert of_it[0] == connections.KEPT
        assert {connections.NEW, connections.GZIP} < set(of_it)


def test_the_tables_hold_every_figure() -> None:
    text = connections.figures(document())
    assert "c, 2 CPUs, 2000-01-01, commit 0" in text
    assert "a JPEG of 83 KB" in text
    assert f"| {connections.KEPT} | 11.0 | 12.0 |" in text
    assert f"| {connections.PINGED} | 11.2 |  |" in text
    assert "a request takes 11.3 ms, and 10.6 ms while `detector`" in text
    assert "| `detector` | 20.0 | 2.5 |" in text


def test_other_detections_are_refused() -> None:
    failed = ImageResult("image", "server_error", error="unavailable")
    good = ImageResult("image", "ok")
    with pytest.raises(RuntimeError, match="new: unavailable"):
        connections.check("new", failed, good)
    with pytest.raises(RuntimeError, match="new: other detections"):
        connections.check("new", good, good)


def test_the_page_holds_the_committed_figures() -> None:
    page = connections.PAGE.read_text(encoding="utf-8")
    assert page == connections.fill(page, connections.committed()), "run: make bench-connections"
