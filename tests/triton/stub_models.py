"""Python models with the stub in their folders, and the environments that they run in."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc_client

from endcap.environment.stub import install
from tests.triton.calls import infer

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
TENSORS = """
max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
"""
_HEAD = """
import os
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
"""
ECHO = (
    _HEAD
    + """
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", each)]) for each in x]
"""
)
RAISES_AT_LOAD = (
    _HEAD
    + """
    def initialize(self, args):
        raise ValueError("the weights are of another network")
"""
)
# Negative numbers fail; 13 and 14 end the process, 14 as if all were well.
TOUCHY = (
    _HEAD
    + """
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if x[0] == 13:
            os.kill(os.getpid(), 9)
        if x[0] == 14:
            os._exit(0)
        if x[0] < 0:
            error = pb_utils.TritonError(f"{x[0]:g} is negative; send a number from 0 up")
            return pb_utils.InferenceResponse([], error)
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
"""
)


def write_model(
    repository: Path, name: str, code: str, *, environment: Path | None = None, stub: str = RUNNING
) -> Path:
    """A model with the stub for Python `stub` in its folder."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(code)
    config = 'backend: "python"' + TENSORS
    if environment is not None:
        config += (
            'parameters { key: "EXECUTION_ENV_PATH" '
            f'value {{ string_value: "{environment}" }} }}\n'
        )
    (folder / "config.pbtxt").write_text(config)
    install(folder, python_version=stub)
    return folder


def send_request(client: grpc_client.InferenceServerClient, model: str, x: float) -> float:
    return float(infer(client, model, {"x": np.array([x], np.float32)})["y"][0])


def make_environment(folder: Path, *packages: Path) -> Path:
    """A virtual environment of the running Python, with links to packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site_packages = folder / "lib" / f"python{RUNNING}" / "site-packages"
    for package in packages:
        (site_packages / package.name).symlink_to(package)
    return folder


def installed(*patterns: str) -> list[Path]:
    """Files and folders in the running Python's site-packages."""
    folder = Path(sysconfig.get_path("platlib"))
    return [path for pattern in patterns for path in sorted(folder.glob(pattern))]
