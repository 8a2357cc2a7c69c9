"""Outcome of a test that lacks something that it needs: a skip or a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    """Skips the test, or fails it where ENDCAP_REQUIRE_CUDA=1 says that a GPU is required."""
    if os.environ.get("ENDCAP_REQUIRE_CUDA") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
