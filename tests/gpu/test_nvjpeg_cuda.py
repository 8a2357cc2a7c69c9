"""nvJPEG: its state, what follows where it is not available, and near to the CPU where it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from tests.gpu.pictures import FILES
from tests.support import jpegs
from tests.support.cuda_inputs import STATE, lacking
from tests.support.tolerances import NVJPEG_STEPS

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


@pytest.fixture
def nvjpeg(real_gpu: endcap.CudaState) -> endcap.NvjpegState:
    """nvJPEG and a GPU with a JPEG engine, or a skip; a failure where a GPU is required."""
    state = endcap.nvjpeg_state()
    if not state.available:
        lacking(f"nvJPEG cannot be used: {state.reason}")
    return state


def by_nvjpeg(images: list[Any], **options: Any) -> endcap.PreprocessResult:
    """Decoded by the GPU's JPEG engine."""
    result = endcap.preprocess(
        images, **options, decode="fast", jpeg_decoder="nvjpeg", device="cuda"
    )
    assert result.decoders == ("nvjpeg",) * len(images)
    return result


NVJPEG_OPTIONS: dict[str, Any] = {"size": 64, "dtype": "uint8", "fit": "stretch"}


def assert_near(actual: endcap.PreprocessResult, images: list[Any], **options: Any) -> None:
    expected = endcap.preprocess(images, **options).images.astype(np.int16)
    difference = np.abs(actual.images.to_numpy().astype(np.int16) - expected)
    assert difference.max() <= NVJPEG_STEPS


@pytest.mark.parametrize("kind", ["4:2:0", "4:4:4", "gray"])
def test_nvjpeg_is_near(nvjpeg: endcap.NvjpegState, kind: str) -> None:
    images = [FILES[kind]]
    assert_near(by_nvjpeg(images, **NVJPEG_OPTIONS), images, **NVJPEG_OPTIONS)


def test_nvjpeg_decodes_batches_in_turn(nvjpeg: endcap.NvjpegState) -> None:
    batches = [[FILES["4:2:0"], FILES["gray"]], [FILES["4:4:4"]], [FILES["4:2:0"]] * 3]
    results = [by_nvjpeg(images, **NVJPEG_OPTIONS) for images in batches]
    for images, result in zip(batches, results, strict=True):
        assert_near(result, images, **NVJPEG_OPTIONS)


def test_nvjpeg_decodes_a_large_picture_of_odd_size(nvjpeg: endcap.NvjpegState) -> None:
    images = [jpegs.encode(jpegs.photo(1079, 1919, seed=41))]
    options = NVJPEG_OPTIONS | {"size": 640}
    assert_near(by_nvjpeg(images, **options), images, **options)


def test_nvjpeg_by_name_refuses_what_its_engine_does_not_decode(
    nvjpeg: endcap.NvjpegState,
) -> None:
    images = [FILES["4:2:0"], FILES["progressive"], FILES["gray"]]
    options = NVJPEG_OPTIONS | {"decode": "fast", "jpeg_decoder": "nvjpeg", "device": "cuda"}
    result = endcap.preprocess(images, **options, on_error="blank")
    assert list(result.status) == [0, endcap.Status.UNSUPPORTED, 0]
    assert result.decoders == ("nvjpeg", "", "nvjpeg")
    with pytest.raises(endcap.UnsupportedError, match="'auto' or 'hybrid'"):
        endcap.preprocess(images, **options)


def test_auto_mixes_nvjpeg_and_cpu_threads_in_one_batch(nvjpeg: endcap.NvjpegState) -> None:
    photo = jpegs.photo(1088, 1920, seed=42)
    images = [jpegs.encode(photo)] * 8
    images[3] = jpegs.encode(photo, progressive=True)
    options = NVJPEG_OPTIONS | {"size": (1088, 1920)}  # so that `fast` does not shrink
    result = endcap.preprocess(images, **options, decode="fast", device="cuda")
    assert result.decoders == ("nvjpeg",) * 3 + ("hybrid",) + ("nvjpeg",) * 4
    assert_near(result, images, **options)


def test_nvjpeg_writes_every_plane_of_every_batch(nvjpeg: endcap.NvjpegState) -> None:
    """A plane that the engine left out would have the image of the batch before."""
    different = [jpegs.encode(jpegs.photo(480, 640, seed=50 + n)) for n in range(16)]
    processor = endcap.Preprocessor(
        **NVJPEG_OPTIONS, decode="fast", jpeg_decoder="nvjpeg", device="cuda"
    )
    singles = [processor(file).images.to_numpy()[0] for file in different]
    for turn in range(12):
        order = np.random.default_rng(turn).permutation(64) % 16
        images = processor([different[n] for n in order]).images.to_numpy()
        np.testing.assert_array_equal(images, np.stack([singles[n] for n in order]))
