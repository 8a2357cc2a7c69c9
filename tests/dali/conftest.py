"""What the tests of DALI share: the other tests' modules on the path, and the operators, loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent)]  # jpegs and the like


@pytest.fixture(scope="session", autouse=True)
def dali_operators() -> Path:
    """The operators' library, built where that was not done before, and loaded in this process."""
    import endcap.dali

    endcap.dali.build()
    return endcap.dali.load()
