"""The old name of endcap.environment.stub."""

from __future__ import annotations

import warnings

from endcap.environment.stub import Check, InstalledStub, StubError, StubReport, check, install

__all__ = ["Check", "InstalledStub", "StubError", "StubReport", "check", "install"]

warnings.warn(
    "endcap.stub is now endcap.environment.stub: import it from there",
    DeprecationWarning,
    stacklevel=2,
)
