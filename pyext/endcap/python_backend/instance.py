"""What the engines of a model instance share: device, core, and memory kept from call to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty
from endcap._device import Target
from endcap.cuda_array import CudaArray
from endcap.errors import CudaError, error_for_status
from endcap.triton.stage_settings import StageSettings


def target_of(args: Mapping[str, str]) -> Target | None:
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


class RowMemory:
    """Arrays of a row for each image, as large as the largest batch so far.

    The server copies outputs into shared memory before it calls ``execute`` again, so that the same
    rows can take the next results: memory that is fresh from the system costs a page fault for
    every 4 KiB.

    Args:
        specs: name, dtype and shape of one row, as the core tells them.
    """

    def __init__(self, specs: Sequence[tuple[str, str, list[int]]]) -> None:
        self._specs = {name: (np.dtype(dtype), tuple(shape)) for name, dtype, shape in specs}
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def rows(self, name: str, count: int) -> npt.NDArray[Any]:
        """Return the first rows of one array, uninitialised.

        Raises:
            OutOfMemoryError: not enough memory for them.
        """
        array = self._arrays.get(name)
        if array is None or len(array) < count:
            dtype, shape = self._specs[name]
            self._arrays.pop(name, None)  # goes back first
            array = self._arrays[name] = empty((count, *shape), dtype)
        return array[:count]


class CoreStage:
    """Base of the engines: the core on a device, and memory for its results.

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
        self._memory = RowMemory(self._specs)

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {name: value for name, _, _, value in self._core.parameters}

    def _raise_first_failure(self, items: Sequence[tuple[Any, ...]]) -> None:
        for index, (code, message, *_) in enumerate(items):
            if code != 0:
                place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
                raise error_for_status(code, place + message)

    def _shaped(self, rows: Any) -> Any:
        """Return rows as the model's output, without a batch dimension where it has none."""
        if isinstance(rows, _core.CudaTensor):
            return CudaArray(rows if self._settings.batched else rows.reshape(rows.shape[1:]))
        return rows if self._settings.batched else rows[0]
