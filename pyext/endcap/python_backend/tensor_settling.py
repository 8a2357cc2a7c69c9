"""The old name of endcap.triton.tensor_completion, for model.py files that were copied earlier."""

from __future__ import annotations

import warnings

from endcap.triton.tensor_completion import complete_tensors as settle

__all__ = ["settle"]

warnings.warn(
    "endcap.python_backend.tensor_settling is now endcap.triton.tensor_completion: "
    "import it from there",
    DeprecationWarning,
    stacklevel=2,
)
