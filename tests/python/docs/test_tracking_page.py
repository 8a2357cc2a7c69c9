"""The figures in docs/tracking.md are those of the committed results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"


def test_the_figures_are_those_of_the_results() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "tracking_page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_servers_memory_stayed_flat() -> None:
    figures = json.loads((RESULTS / "tracking_memory.json").read_text())
    assert figures["wrong"] == []
    assert figures["sequences_ended"] == figures["sequences"]
    held = {point["frames"]: point["mib"] for point in figures["points"]}
    assert held[100_000] < held[20_000] * 1.01
