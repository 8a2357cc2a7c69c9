"""Fixtures of the tests on a GPU: whether there is one, and the outcome without one.

ENDCAP_REQUIRE_CUDA=1 makes each skip for want of a GPU a failure. On the library that
tests/cuda_emulation builds (ENDCAP_CUDA_LIBRARY names it) all run but those that need torch.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("ENDCAP_EMULATED_DEVICES", "2")

import endcap
from tests.support.cuda_inputs import lacking


@pytest.fixture(scope="session", autouse=True)
def cuda() -> endcap.CudaState:
    """What there is of CUDA."""
    state = endcap.cuda_state()
    if not state.available:
        lacking(f"CUDA cannot be used: {state.reason}")
    return state


@pytest.fixture(scope="session")
def torch(cuda: endcap.CudaState) -> Any:
    """torch on the same GPU."""
    if "emulation" in cuda.devices[0].name:
        pytest.skip("torch does not know the emulated GPU")
    try:
        import torch
    except ImportError as error:
        lacking(f"torch is not installed: {error}")
    if not torch.cuda.is_available():
        lacking("torch cannot use the GPU")
    return torch


@pytest.fixture
def real_gpu(cuda: endcap.CudaState) -> endcap.CudaState:
    """A GPU that works on several things at once."""
    if "emulation" in cuda.devices[0].name:
        pytest.skip("the emulation does one thing after the other")
    return cuda
