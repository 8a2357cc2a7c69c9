"""Nothing of a user's networks is sent to anybody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

NETWORK = Path(__file__).resolve().parents[3] / "model_repository" / "detector" / "1" / "model.onnx"
# ONNX Runtime 1.32 leaves the number of a session in the temporary folder where it has one.
RUN = """
import sys
from pathlib import Path
from endcap._onnx_network import OnnxNetwork
OnnxNetwork(Path(sys.argv[1]), error=RuntimeError)
"""


def test_onnx_runtime_begins_no_session_of_its_telemetry(tmp_path: Path) -> None:
    # On machines that build software it begins none by itself.
    without = {"CI", "ORT_DISABLE_TELEMETRY", "GITHUB_ACTIONS", "TF_BUILD"}
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment["TMPDIR"] = str(tmp_path)
    command = [sys.executable, "-c", RUN, str(NETWORK)]
    subprocess.run(command, env=environment, check=True, timeout=100)
    assert list(tmp_path.iterdir()) == []
