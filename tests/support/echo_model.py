"""The smallest model that a Triton server without further backends can run: y = x."""

from __future__ import annotations

from pathlib import Path

TENSORS = """
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", each)]) for each in x]
"""


def write_model(repository: Path, name: str, config: str, code: str | None = None) -> Path:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    if code is not None:
        (repository / name / "1" / "model.py").write_text(code)
    return repository


def write_echo_model(repository: Path) -> Path:
    """Write the model `echo`; return the repository."""
    return write_model(repository, "echo", 'backend: "python"' + TENSORS, ECHO)
