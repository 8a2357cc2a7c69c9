"""What the engines of a model instance share: the device, the core, and memory for outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import endcap._core as _core
from endcap._arrays import empty
from endcap.cuda_array import CudaArray, Target
from endcap.errors import CudaError
from endcap.triton.stage_settings import StageSettings


def find_target(args: Mapping[str, str]) -> Target | None:
    """Return the GPU of an instance, None for the CPU.

    Args:
        args: what the server hands to ``initialize``.

    Raises:
        CudaError: the instance is one of a GPU that endcap cannot use.
    """
    if args["model_instance_kind"] != "GPU":
        return None
    target = Target(int(args["model_instance_device_id"]))
    try:
        _core.require_cuda(target.device_id)
    except CudaError as error:
        raise CudaError(
            f"{error}; to work on the CPU, give the model's config instance_group "
            "{ kind: KIND_CPU }"
        ) from error
    return target


class CoreStage:
    """Base of the engines: the core on a device.

    Args:
        engine: the core's class of the stage.
        settings: of the model.
        target: the GPU to work on; None for the CPU.

    Raises:
        UnsupportedError, CudaError: the device cannot do it.
    """

    def __init__(self, engine: Any, settings: StageSettings, target: Target | None) -> None:
        self._settings = settings
        self._target = target
        device_id = None if target is None else target.device_id
        self._core = engine(settings.parameters, settings.threads, device_id)
        self._specs = self._core.outputs

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def _rows(self, dtype: str, shape: Sequence[int]) -> Any:
        """Return memory for rows of an output, uninitialised; raise OutOfMemoryError."""
        if self._target is None:
            return empty(tuple(shape), np.dtype(dtype))
        return self._target.empty(tuple(shape), np.dtype(dtype))

    def _to_output(self, rows: Any) -> Any:
        """Return rows as the model's output, without a batch dimension where it has none."""
        if isinstance(rows, _core.CudaTensor):
            return CudaArray(rows if self._settings.batched else rows.reshape(rows.shape[1:]))
        return rows if self._settings.batched else rows[0]
