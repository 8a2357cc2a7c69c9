"""What holds without a GPU: names of devices, streams, and the message of why there is none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.cuda_array import choose_target, cuda_device
from tests.support import jpegs
from tests.support.cuda_inputs import STATE
from tests.support.sample_heads import yolov8_head

BOXES, SCORES = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
CALLS: dict[str, Callable[..., Any]] = {
    "preprocess": lambda **k: endcap.preprocess(jpegs.photo(8, 8), size=8, **k),
    "Preprocessor": lambda **k: endcap.Preprocessor(size=8, **k),
    "Postprocessor": lambda **k: endcap.Postprocessor(num_classes=3, **k),
    "nms": lambda **k: endcap.nms(BOXES, SCORES, 0.5, **k),
    "batched_nms": lambda **k: endcap.batched_nms(BOXES, SCORES, [0, 1], 0.5, **k),
}


class Elsewhere:
    """An array on the fourth GPU, which nobody here can read."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("not here")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 3)


def test_a_state_is_available_or_says_why_not() -> None:
    assert STATE.available == (STATE.reason == "")
    assert not STATE.available or STATE.devices
    assert [device.id for device in STATE.devices] == list(range(len(STATE.devices)))
    assert endcap.cuda_state() == STATE


@pytest.mark.skipif(STATE.available, reason="this machine has a GPU")
def test_nvjpeg_without_a_gpu_says_why_not() -> None:
    state = endcap.nvjpeg_state()
    assert (state.available, state.library_path, state.version) == (False, "", "")
    assert STATE.reason in state.reason


@pytest.mark.skipif(STATE.available, reason="this machine has a GPU")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_missing_gpu_is_an_error_with_its_reason(name: str, device: str) -> None:
    with pytest.raises(endcap.CudaError) as caught:
        CALLS[name](device=device)
    assert STATE.reason in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "device", ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:1.5", "cuda:²", "cuda 0", 0]
)
def test_other_names_are_no_devices(name: str, device: Any) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="device is"):
        CALLS[name](device=device)


def test_names_of_devices() -> None:
    assert cuda_device("cpu") is None
    assert [cuda_device(name) for name in ("cuda", "cuda:0", "cuda:12")] == [0, 0, 12]
    assert endcap.Preprocessor().device == "cpu"
    assert endcap.Postprocessor().device == "cpu"


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (0, 0),
        (2, 2),
        (0x7F00_0000_1000, 0x7F00_0000_1000),
        (SimpleNamespace(cuda_stream=5), 5),
        (SimpleNamespace(ptr=6), 6),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 7)), 7),
        (SimpleNamespace(__cuda_stream__=(0, 8), ptr=9), 8),
    ],
)
def test_streams_in_the_forms_of_other_libraries(stream: object, handle: int) -> None:
    target = choose_target(1, stream)
    assert (target.device_id, target.stream) == (1, handle)
    assert target.stream_owner is stream


@pytest.mark.parametrize("stream", ["", "0", -1, 1.0, True, object(), SimpleNamespace(ptr=None)])
def test_invalid_streams_are_refused(stream: object) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="stream is"):
        choose_target(0, stream)


def test_a_cpu_takes_no_stream_and_does_not_enqueue() -> None:
    head = yolov8_head(1, anchors=9, num_classes=3)
    for call in (
        lambda: endcap.preprocess(jpegs.photo(8, 8), size=8, stream=0),
        lambda: endcap.Postprocessor(num_classes=3)(head, stream=0),
        lambda: endcap.nms(BOXES, SCORES, 0.5, stream=0),
        lambda: endcap.Postprocessor(num_classes=3).enqueue(head),
    ):
        with pytest.raises(endcap.InvalidArgumentError, match=r"stream|device='cuda'"):
            call()


def test_a_cpu_names_the_gpu_that_holds_its_input() -> None:
    array = Elsewhere()
    for call in (
        lambda: endcap.decode(array),
        lambda: endcap.preprocess(array, size=8),
        lambda: endcap.Postprocessor(num_classes=3)(array),
        lambda: endcap.Postprocessor(num_classes=3)(np.zeros((1, 7, 5), np.float32), array),
        lambda: endcap.nms(array, SCORES, 0.5, device="cpu"),
        lambda: endcap.nms(BOXES, array, 0.5),
        lambda: endcap.batched_nms(BOXES, SCORES, array, 0.5),
    ):
        with pytest.raises(endcap.InvalidArgumentError, match="lies on cuda:3"):
            call()
