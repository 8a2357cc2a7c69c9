"""The old name of endcap.tools.web."""

from __future__ import annotations

import warnings

from endcap.tools.web import PageError, run

__all__ = ["PageError", "run"]

warnings.warn(
    "endcap.web is now endcap.tools.web: import it from there", DeprecationWarning, stacklevel=2
)
