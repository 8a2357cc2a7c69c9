"""Makes a network work in half precision, by ONNX Runtime's own converter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from endcap.repository.network_process import TrialLimits, run_network_worker
from endcap.repository.onnx_file import OnnxFile, read_onnx


def to_half(network: OnnxFile, scratch: Path, limits: TrialLimits) -> OnnxFile:
    """Return the network in float16, inputs and outputs included; its file is in `scratch`.

    Raises:
        RepositoryError: The network cannot be converted, or not within the limits.
    """
    file = scratch / "half.onnx"
    request = {"task": "to_half", "target": str(file)}
    run_network_worker(network, request, limits)
    return replace(read_onnx(file), path=network.path)
