"""Runs `endcap tune` with NVIDIA's perf_analyzer on $PATH, on a model that takes a known time.

python tests/peers/tuned_model.py RATE

It runs in the server's environment, and prints what the command prints.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from loaded_model import CONFIG, SLEEPING, write_model
from PIL import Image

from benchmarks.paths import LOAD_GENERATOR
from benchmarks.server.load_generator import LoadGenerator


def main(rate: str) -> None:
    """Tunes one model for half a minute."""
    theirs = LoadGenerator(LOAD_GENERATOR, "")
    with tempfile.TemporaryDirectory(prefix="endcap-") as scratch:
        program = Path(scratch) / "bin" / "perf_analyzer"
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\nexport LD_LIBRARY_PATH='{theirs.libraries}'\n"
            f"exec '{theirs.program}' \"$@\"\n"
        )
        program.chmod(0o755)
        image = Path(scratch) / "image.png"
        Image.new("RGB", (64, 48)).save(image)
        repository = write_model(Path(scratch) / "models", "detect", CONFIG, SLEEPING)
        command = [sys.executable, "-m", "endcap", "tune", str(repository), str(image)]
        command += ["--rate", rate, "--p99-ms", "1000", "--budget-minutes", "0.4"]
        command += ["--wait-minutes", "0", "--output", str(Path(scratch) / "out")]
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    main(*sys.argv[1:])
