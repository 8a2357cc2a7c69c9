"""The old name of endcap.triton.stage_settings, for model.py files that were copied earlier."""

from __future__ import annotations

import warnings

from endcap.triton.stage_settings import StageSettings as Settings
from endcap.triton.stage_settings import (
    postprocess_settings,
    preprocess_dali_settings,
    preprocess_settings,
)

__all__ = ["Settings", "postprocess_settings", "preprocess_dali_settings", "preprocess_settings"]

warnings.warn(
    "endcap.python_backend.settings is now endcap.triton.stage_settings: import it from there",
    DeprecationWarning,
    stacklevel=2,
)
