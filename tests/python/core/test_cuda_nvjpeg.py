"""nvJPEG as Python shows it: its state, and what follows where it is not available."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jpegs
import numpy as np
import pytest
from cuda_inputs import STATE, require_cuda

import endcap

require_cuda()
FAKE = Path(STATE.library_path).resolve().parents[1] / "cpp" / "libendcap_fake_nvjpeg.so"
WITHOUT = "/no/such/libnvjpeg.so.13"
SHOW_STATE = "import dataclasses, endcap, json; s = endcap.nvjpeg_state(); "
SHOW_STATE += "print(json.dumps(dataclasses.asdict(s)))"


def state_with(library: str | Path) -> endcap.NvjpegState:
    """The state in a process that opens this nvJPEG: it is looked for once in each."""
    environment = os.environ | {"ENDCAP_NVJPEG_LIBRARY": str(library)}
    command = [sys.executable, "-c", SHOW_STATE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return endcap.NvjpegState(**json.loads(done.stdout))


def test_a_state_is_available_or_says_why_not() -> None:
    state = endcap.nvjpeg_state()
    assert state.available == (state.reason == "")
    assert not state.available or (state.version and Path(state.library_path).is_file())


def test_a_gpu_that_does_not_exist_is_a_reason() -> None:
    state = endcap.nvjpeg_state(77)
    assert (state.available, state.library_path, state.version) == (False, "", "")
    assert "cuda:77 does not exist" in state.reason


@pytest.mark.skipif(not FAKE.is_file(), reason="the library that stands in for nvJPEG is not built")
def test_a_state_names_the_library_and_its_version() -> None:
    assert state_with(FAKE) == endcap.NvjpegState(True, "", str(FAKE), "13.0.2")


def test_a_library_that_is_missing_is_a_reason() -> None:
    state = state_with(WITHOUT)
    assert (state.available, state.library_path, state.version) == (False, "", "")
    assert WITHOUT in state.reason


def test_where_it_is_not_available_only_its_name_is_an_error() -> None:
    state = endcap.nvjpeg_state()
    if state.available:
        pytest.skip(f"nvJPEG {state.version} is available")
    with pytest.raises(endcap.CudaError) as caught:
        endcap.Preprocessor(size=64, decode="fast", jpeg_decoder="nvjpeg", device="cuda")
    assert state.reason in str(caught.value)
    files = [jpegs.photo_jpeg(1024, 1024)] * 9
    result = endcap.preprocess(files, size=64, decode="fast", device="cuda")
    assert result.decoders == ("hybrid",) * 9
    expected = endcap.preprocess(files, size=64, decode="fast").images
    np.testing.assert_array_equal(result.images.to_numpy(), expected)
