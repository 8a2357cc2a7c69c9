"""Runs a network on noise, to see what comes out rather than to trust what the file declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap._system.scratch import scratch_folder
from endcap.repository.network_input import NetworkInput
from endcap.repository.network_process import TrialLimits, run_network_worker
from endcap.repository.onnx_file import OnnxFile


@dataclass(frozen=True)
class TrialRun:
    """What the network answered to one image of noise, and which dimensions it leaves open.

    Attributes:
        answers: The outputs by name, with the batch dimension.
        is_free: Of each output and dimension, as ONNX Runtime understands the file.
    """

    answers: Mapping[str, NDArray[Any]]
    is_free: Mapping[str, tuple[bool, ...]]


def try_network(
    network: OnnxFile, image: NetworkInput, *, several: bool, limits: TrialLimits
) -> TrialRun:
    """Run the network on one image of noise, on another, and on both, in a process of its own.

    Args:
        several: Whether it has to take two images at once as well. Raises UnknownOperatorError, and
            RepositoryError when the network cannot be loaded or run, gives no tensors, as many rows
            as it finds, or something else for two images than for each alone, or exceeds a limit.
    """
    with scratch_folder("trial") as scratch:
        request = {
            "task": "run",
            "input": image.name,
            "dims": image.dims,
            "dtype": image.dtype,
            "several": several and image.batch is None,
            "target": str(scratch),
        }
        outputs = run_network_worker(network, request, limits)["outputs"]
        answers = {each["name"]: _array(scratch, each) for each in outputs}
    return TrialRun(answers, {each["name"]: tuple(each["is_free"]) for each in outputs})


def _array(folder: Path, output: Mapping[str, Any]) -> NDArray[Any]:
    if output["file"] is None:  # texts, of which only the shape matters
        return np.empty(output["shape"], np.object_)
    array: NDArray[Any] = np.load(folder / output["file"], allow_pickle=False)
    return array
