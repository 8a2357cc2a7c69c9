"""The old name of endcap.triton.cascade_settings, for model.py files that were copied earlier."""

from __future__ import annotations

import warnings

from endcap.triton.cascade_settings import CascadeSettings, models_called, read_cascade_settings

__all__ = ["CascadeSettings", "models_called", "read_cascade_settings"]

warnings.warn(
    "endcap.python_backend.cascade_settings is now endcap.triton.cascade_settings: "
    "import it from there",
    DeprecationWarning,
    stacklevel=2,
)
