"""endcap tune has its choice measured by NVIDIA's perf_analyzer, too."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tolerances import RANDOM_ARRIVALS

TUNED_MODEL = Path(__file__).with_name("tuned_model.py")
SLEEP_MS, LIMIT_MS = 20, 1000
RATE = 15.0
_FIGURES = re.compile(r"perf_analyzer, ([\d.]+) images/s at random times: p99 ([\d.]+) ms \(endcap")


def test_the_choice_is_cross_checked() -> None:
    command = [os.environ["ENDCAP_SERVER_PYTHON"], str(TUNED_MODEL), str(RATE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    if "cannot be downloaded" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    found = _FIGURES.search(done.stdout)
    assert found is not None, done.stdout
    images_per_s, p99_ms = map(float, found.groups())
    print(f"\n{found.group()}")
    assert images_per_s == pytest.approx(RATE, rel=RANDOM_ARRIVALS)
    assert SLEEP_MS <= p99_ms < LIMIT_MS
