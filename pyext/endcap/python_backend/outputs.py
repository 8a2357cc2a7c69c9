"""Results as output tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


def to_tensors(results: Mapping[str, Any]) -> list[Any]:
    """Return a tensor for each NumPy array or CudaArray; those of a GPU stay there."""
    return [
        pb_utils.Tensor(name, array)
        if isinstance(array, np.ndarray)
        else pb_utils.Tensor.from_dlpack(name, array)
        for name, array in results.items()
    ]
