"""Runs a network once, to see what comes out rather than to trust what the file declares."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.network_input import NetworkInput
from endcap.repository.tensor_spec import TRITON_TYPES, TensorSpec

_ONLY_FATAL = 4  # of the severities of ONNX Runtime: its errors come as exceptions too
_SEED = 0


@dataclass(frozen=True)
class TrialRun:
    """What a network answered to one image of noise: outputs by name, with the batch dimension."""

    outputs: Mapping[str, NDArray[Any]]

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The outputs as they are, of one image, with the batch dimension."""
        return tuple(
            TensorSpec(name, TRITON_TYPES.get(array.dtype.name, ""), tuple(array.shape))
            for name, array in self.outputs.items()
        )


def try_network(path: Path, network: NetworkInput, *, several: bool) -> TrialRun:
    """Runs the network on the CPU.

    several: whether it has to take two images at once as well.
    Raises RepositoryError when it cannot be loaded or run, or mixes a batch up.
    """
    session = _open(path)
    names = [output.name for output in session.get_outputs()]
    image = _noise(network)
    answers = dict(zip(names, _run(session, path, network, image), strict=True))
    for name, answer in answers.items():
        if not isinstance(answer, np.ndarray):
            raise RepositoryError(
                f"{path} gives {name} as a {type(answer).__name__}, and only tensors can be passed "
                "on; export it without what makes that, such as the ZipMap of a classifier"
            )
    if several and network.batch is None:
        pair = np.concatenate([image, image])
        for name, both in zip(names, _run(session, path, network, pair), strict=True):
            shape = (2 * answers[name].shape[0], *answers[name].shape[1:])
            if answers[name].ndim and both.shape != shape:
                raise RepositoryError(
                    f"{path} claims to take any number of images, and gives {name} as "
                    f"{list(answers[name].shape)} for one and {list(both.shape)} for two; export "
                    "it again, or give --max-batch 1"
                )
    return TrialRun(answers)


def _open(path: Path) -> Any:
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise RepositoryError(
            f"trying the network takes onnxruntime, which cannot be imported ({error}); run "
            "`pip install 'endcap[init]'`"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common type
        raise RepositoryError(
            f"{path} cannot be loaded by ONNX Runtime: {_one_line(error)}; a network with "
            "operators that only TensorRT has is for --runtime tensorrt"
        ) from error


def _run(session: Any, path: Path, network: NetworkInput, images: NDArray[Any]) -> list[Any]:
    try:
        return list(session.run(None, {network.name: images}))
    except Exception as error:  # ONNX Runtime's errors have no common type
        count = "an image" if len(images) == 1 else f"{len(images)} images"
        raise RepositoryError(
            f"{path} cannot be run on {count} of {list(network.dims)}: {_one_line(error)}; export "
            "it again" + ("" if len(images) == 1 else ", or give --max-batch 1")
        ) from error


def _noise(network: NetworkInput) -> NDArray[Any]:
    """Of no picture; values as a network is used to, between 0 and 1, or 0 and 255 of integers."""
    values = np.random.default_rng(_SEED).random((1, *network.dims), np.float32)
    if network.dtype in ("uint8", "int8"):
        values *= 127 if network.dtype == "int8" else 255
    return values.astype(network.dtype)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
