"""A network's outputs, as a trial run gave them or as the file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.trial_run import TrialRun
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec


@dataclass(frozen=True)
class NetworkOutput:
    """One output of one image.

    Attributes:
        dims: Without the batch dimension.
        has_batch: Whether there is one, of 1 for one image.
        is_free: Of each dimension in the file, the batch included, whether it is left open.
        values: What noise gave, in float64; None where the network was not tried or gave no
            numbers.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    has_batch: bool
    is_free: tuple[bool, ...]
    values: NDArray[np.float64] | None

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self.data_type in ("FP16", "FP32", "FP64")

    def __str__(self) -> str:
        """As a declared tensor."""
        return str(TensorSpec(self.name, self.data_type, self.dims))


def tried_outputs(trial: TrialRun) -> tuple[NetworkOutput, ...]:
    """Return what came out of the trial run, in the network's order."""
    outputs = []
    for name, array in trial.answers.items():
        # What one image gives has a batch dimension of 1, or none at all.
        has_batch = array.shape[:1] == (1,)
        outputs.append(
            NetworkOutput(
                name=name,
                data_type=TRITON_TYPES.get(array.dtype.name, ""),
                dims=array.shape[1:] if has_batch else array.shape,
                has_batch=has_batch,
                is_free=trial.is_free[name],
                values=_numbers(array[0] if has_batch else array),
            )
        )
    return tuple(outputs)


def declared_outputs(network: OnnxFile) -> tuple[NetworkOutput, ...]:
    """Return what the file declares. Raises RepositoryError where that leaves a size open."""
    outputs = []
    for spec in network.outputs:
        known = tuple(dim for dim in spec.dims[1:] if dim is not None)
        if len(known) != len(spec.dims) - 1 or spec.dims[0] not in (None, 1):
            raise RepositoryError(
                f"{network.path} does not declare the shape of its output for one image ({spec}), "
                "and it cannot be tried here; export it with fixed shapes behind the batch"
            )
        outputs.append(
            NetworkOutput(
                name=spec.name,
                data_type=spec.data_type,
                dims=known,
                has_batch=True,
                is_free=tuple(dim is None for dim in spec.dims),
                values=None,
            )
        )
    return tuple(outputs)


def _numbers(array: NDArray[Any]) -> NDArray[np.float64] | None:
    if array.dtype.kind not in "biuf":
        return None
    return np.asarray(array, np.float64)
