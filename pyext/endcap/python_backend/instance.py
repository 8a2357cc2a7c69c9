"""Device of a model instance, and the memory that it keeps from call to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty
from endcap._device import Target
from endcap.errors import CudaError


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
            OutOfMemoryError: there is no room for them.
        """
        array = self._arrays.get(name)
        if array is None or len(array) < count:
            dtype, shape = self._specs[name]
            self._arrays.pop(name, None)  # goes back first
            array = self._arrays[name] = empty((count, *shape), dtype)
        return array[:count]
