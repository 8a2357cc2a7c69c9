"""The benchmark of the network step: its networks, its tables and the page that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks.network import networks, page
from benchmarks.network.run import OTHER_SHAPE, Plan, steps


def test_every_network_runs_at_two_batch_sizes(tmp_path: Path) -> None:
    files = networks.write_all(tmp_path)
    assert list(files) == ["sample detector", "residual", "depthwise", "transformer"]
    images = np.random.default_rng(0).random((2, *OTHER_SHAPE), dtype=np.float32)
    for name in list(files)[1:]:
        session = onnxruntime.InferenceSession(files[name], providers=["CPUExecutionProvider"])
        both = session.run(None, {"images": images})[0]
        one = session.run(None, {"images": images[:1]})[0]
        assert both.shape == (2, 1000)
        assert np.isfinite(both).all()
        np.testing.assert_allclose(both[:1], one, rtol=1e-3, atol=1e-3 * np.abs(one).max())
        assert not np.array_equal(both[0], both[1])


def test_steps_counts_each_load_and_each_batch() -> None:
    assert steps(Plan(concurrencies=(1, 4), rounds=2)) == 4 * 3 * 2 * 2 + 4 * 2


def document() -> dict[str, Any]:
    step = {
        "network": "n",
        "batch": 8,
        "bare_spinning_ms": 9.0,
        "bare_waiting_ms": 10.0,
        "step_ms": 10.4,
        "request_ms": 11.0,
        "rounds": 5,
    }
    load = {"network": "n", "setting": "default", "images_per_second": 50.4}
    return {
        "machine": {"cpu": "c", "cpus": 2, "date": "2000-01-01T00:00", "commit": "0"},
        "network": {
            "versions": {"onnxruntime": "1.0"},
            "rounds": 5,
            "seconds": 2.0,
            "steps": [step],
            "loads": [{**load, "concurrency": 4}, {**load, "concurrency": 1}],
        },
    }


def test_the_tables_hold_ratio_and_loads() -> None:
    text = page.figures(document())
    assert "c, 2 CPUs, 2000-01-01, commit 0, ONNX Runtime 1.0" in text
    assert "| n | 8 | 10.0 | 9.0 | 10.4 (1.04x) | 11.0 |" in text
    assert "| n | default | 50 / 50 |" in text


def test_the_page_has_the_committed_figures() -> None:
    written = page.PAGE.read_text(encoding="utf-8")
    assert written == page.fill(written, page.committed()), "run: make bench-network"
    assert "Not measured yet." in page.fill(written, None)
    with pytest.raises(ValueError, match="figures begin"):
        page.fill("a page without marks", None)
