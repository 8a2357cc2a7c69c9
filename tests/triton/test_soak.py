"""A short run of the soak test, with each kind of disturbance once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.triton import soak

DISTURBANCES = [
    "abandoned requests",
    "full /dev/shm",
    "killed clients",
    "killed stubs",
    "model reloads",
]


@pytest.mark.slow
def test_every_request_gets_a_response_while_parts_of_the_server_are_killed(tmp_path: Path) -> None:
    probe = subprocess.run(soak.own_shared_memory(["true"]), capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no /dev/shm of one's own here: {probe.stderr.decode().strip()}")
    requests = 3500
    output = tmp_path / "figures.json"
    subprocess.run(
        [
            *(sys.executable, "-m", soak.__name__, f"--requests={requests}", "--disturb-every=500"),
            f"--output={output}",
        ],
        capture_output=True,
        timeout=300,
        check=False,  # so short a run may grow
    )
    figures = json.loads(output.read_text())
    assert figures["wrong"] == []
    assert sum(figures["responded"].values()) == requests
    assert sorted(figures["disturbances"]) == DISTURBANCES
    kinds = {"bad image", "bad tensor", "batch", "ensemble", "expired deadline", "head", "image"}
    assert kinds | {"python", "rois"} <= set(figures["responded"])
