"""Arrays on a GPU, as endcap's own and as other libraries hold them, and what their tests need.

The GPU may be the emulated one, whose memory is the host's.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np
import pytest

import endcap
from endcap import _core

STATE = endcap.cuda_state()


def require_cuda() -> None:
    """Skip the rest of a module where there is no GPU; ENDCAP_REQUIRE_CUDA=1 lets it fail."""
    if not STATE.available and os.environ.get("ENDCAP_REQUIRE_CUDA") != "1":
        pytest.skip(f"CUDA cannot be used: {STATE.reason}", allow_module_level=True)


def lacking(reason: str) -> NoReturn:
    """Skip the test, or fail it where ENDCAP_REQUIRE_CUDA=1 says that a GPU is required."""
    if os.environ.get("ENDCAP_REQUIRE_CUDA") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def on_gpu(array: np.ndarray) -> endcap.CudaArray:
    return endcap.CudaArray(_core.CudaTensor.upload(np.ascontiguousarray(array), 0, 0, None))


class ByDlpack:
    """Another library's array on a GPU: it speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = on_gpu(array)
        self.streams: list[Any] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.streams.append(options["stream"])
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class ByInterface:
    """Another library's array on a GPU: it has the CUDA array interface and nothing else."""

    def __init__(self, array: np.ndarray, **changes: Any) -> None:
        self._array = on_gpu(array)
        self._changes = changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._array.__cuda_array_interface__ | self._changes


HOLDERS = (on_gpu, ByDlpack, ByInterface)
