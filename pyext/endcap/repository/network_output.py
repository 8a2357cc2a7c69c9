"""A network's outputs, as a trial run gave them or as the file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.tensor_spec import TensorSpec
from endcap.repository.trial_run import TrialRun


@dataclass(frozen=True)
class NetworkOutput:
    """One output of one image.

    dims: without the batch dimension. values: what noise gave, in float64; None where the network
    could not be tried.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    values: NDArray[np.float64] | None

    def __str__(self) -> str:
        """As a declared tensor."""
        return str(TensorSpec(self.name, self.data_type, self.dims))


def tried_outputs(trial: TrialRun) -> tuple[NetworkOutput, ...]:
    """Returns what came out of the trial run, in the network's order."""
    return tuple(
        NetworkOutput(
            spec.name, spec.data_type, _without_batch(spec), _numbers(trial.outputs[spec.name])
        )
        for spec in trial.specs
    )


def declared_outputs(network: OnnxFile) -> tuple[NetworkOutput, ...]:
    """Returns what the file declares. Raises RepositoryError where that leaves a size open."""
    for spec in network.outputs:
        if None in spec.dims[1:]:
            raise RepositoryError(
                f"{network.path} does not declare the shape of its output ({spec}), and it cannot "
                "be tried here; export it with fixed shapes"
            )
    return tuple(
        NetworkOutput(spec.name, spec.data_type, _without_batch(spec), None)
        for spec in network.outputs
    )


def _without_batch(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(dim for dim in spec.dims[1:] if dim is not None)


def _numbers(array: NDArray[Any]) -> NDArray[np.float64] | None:
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        return None
    return np.asarray(array[0], np.float64)
