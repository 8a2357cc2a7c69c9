"""A short run of the soak test of tracking."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.triton import track_soak


def test_every_frame_of_short_sequences_gets_its_ids(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    subprocess.run(
        [sys.executable, "-m", track_soak.__name__, "--frames=4000", f"--output={output}"],
        capture_output=True,
        timeout=250,
        check=False,  # so short a run may grow
    )
    figures = json.loads(output.read_text())
    assert figures["wrong"] == []
    assert figures["frames"] >= 4000
    assert figures["sequences"] == figures["sequences_ended"] >= 4000 / max(track_soak.LENGTHS)
    assert len(figures["points"]) >= track_soak.POINTS
