"""endcap load finds the throughput and the latency that NVIDIA's perf_analyzer finds."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tolerances import LOAD_TEST_FIGURES

LOADED_MODEL = Path(__file__).with_name("loaded_model.py")


def run_both(concurrency: int, repeats: int) -> dict[str, list[Any]]:
    python = os.environ["ENDCAP_SERVER_PYTHON"]
    command = [python, str(LOADED_MODEL), str(concurrency), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    if "cannot be downloaded" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("concurrency", [1, 2, 6])
def test_throughput_and_median_latency(concurrency: int) -> None:
    runs = run_both(concurrency, repeats=3)
    theirs, ours = runs["perf_analyzer"], runs["endcap"]
    assert all(each["failures"] == {} for each in ours)
    throughput = median(each["images_per_s"] for each in ours)
    p50_ms = median(each["latency_ms"]["p50"] for each in ours)
    their_throughput = median(each["inferences_per_second"] for each in theirs)
    their_p50_ms = median(each["p50_ms"] for each in theirs)
    print(
        f"\n{concurrency} in flight: endcap {throughput:.1f}/s, p50 {p50_ms:.2f} ms; "
        f"perf_analyzer {their_throughput:.1f}/s, p50 {their_p50_ms:.2f} ms"
    )
    assert throughput == pytest.approx(their_throughput, rel=LOAD_TEST_FIGURES)
    assert p50_ms == pytest.approx(their_p50_ms, rel=LOAD_TEST_FIGURES)
