"""The DALI operators, built and loaded once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def dali_operators() -> Path:
    """The operators' library, built where that was not done before, and loaded in this process."""
    import endcap.dali

    endcap.dali.build()
    return endcap.dali.load()
