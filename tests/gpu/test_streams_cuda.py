"""Devices, streams and captures: what a call on a GPU may use, and when memory is freed."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import endcap
from endcap import _core
from tests.support.cuda_inputs import STATE, ByInterface, on_gpu
from tests.support.sample_heads import yolov8_head

HEAD = np.stack([yolov8_head(seed, anchors=300, num_classes=3) for seed in (1, 2)])
PIXELS = np.random.default_rng(3).integers(0, 256, (40, 60, 3), np.uint8)
PER_THREAD_STREAM = 2  # cudaStreamPerThread

emulated = pytest.mark.skipif(
    not any("emulation" in device.name for device in STATE.devices),
    reason="captures of other threads are emulated",
)
two_devices = pytest.mark.skipif(len(STATE.devices) < 2, reason="this process has one GPU")


def on_fresh_thread(run: Callable[[], Any]) -> Any:
    """Calls on a thread without a CUDA context, and returns its result or raises its error."""
    results: list[Any] = []

    def body() -> None:
        try:
            results.append(run())
        except endcap.EndcapError as error:
            results.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


@contextmanager
def capturing(stream: int) -> Iterator[Callable[[], bool]]:
    """Lets the emulated stream capture a graph; yields whether calls have harmed the capture."""
    library = ctypes.CDLL(os.environ["ENDCAP_CUDA_LIBRARY"])
    harmed = library.EndcapEmulatedCaptureWasHarmed
    harmed.restype = ctypes.c_bool
    gc.collect()  # an array whose consumers are unknown must not go during a capture
    library.EndcapEmulateCapture(ctypes.c_void_p(stream), ctypes.c_bool(True))
    harmed()
    try:
        yield harmed
    finally:
        library.EndcapEmulateCapture(ctypes.c_void_p(stream), ctypes.c_bool(False))


def postprocessor() -> endcap.Postprocessor:
    return endcap.Postprocessor("yolov8", 3, device="cuda")


def test_an_array_of_the_interface_is_found_on_a_fresh_thread() -> None:
    array = ByInterface(PIXELS)
    preprocessor = endcap.Preprocessor(size=32, device="cuda")
    images = on_fresh_thread(lambda: preprocessor(array)).images
    np.testing.assert_array_equal(images.to_numpy(), endcap.preprocess(PIXELS, size=32).images)


@two_devices
def test_an_array_of_another_device_is_refused_on_a_fresh_thread() -> None:
    tensor = endcap.CudaArray(_core.CudaTensor.upload(PIXELS, 1, 0, None))
    interface = tensor.__cuda_array_interface__
    array = type("Array", (), {"__cuda_array_interface__": interface})()
    assert on_fresh_thread(lambda: _core.find_cuda_device(interface["data"][0])) == 1
    preprocessor = endcap.Preprocessor(size=32, device="cuda:0")
    with pytest.raises(endcap.InvalidArgumentError, match="lies on cuda:1"):
        on_fresh_thread(lambda: preprocessor(array))
    images = endcap.Preprocessor(size=32, device="cuda:1")(array).images
    assert images.device == "cuda:1"
    np.testing.assert_array_equal(images.to_numpy(), endcap.preprocess(PIXELS, size=32).images)


def test_an_address_of_host_memory_is_refused() -> None:
    array = ByInterface(PIXELS, data=(PIXELS.ctypes.data, False))
    with pytest.raises(endcap.InvalidArgumentError, match="not memory of a GPU"):
        endcap.preprocess(array, size=32, device="cuda")


@two_devices
def test_an_array_without_elements_is_on_any_device() -> None:
    boxes = ByInterface(np.empty((0, 4), np.float32), data=(0, False))
    scores = ByInterface(np.empty(0, np.float32), data=(0, False))
    for device in ("cuda:0", "cuda:1"):
        assert endcap.nms(boxes, scores, 0.5, device=device).to_numpy().size == 0


@emulated
def test_preprocess_is_not_captured() -> None:
    preprocessor = endcap.Preprocessor(size=32, device="cuda")
    array = on_gpu(PIXELS)
    with capturing(0) as harmed:
        with pytest.raises(endcap.UnsupportedError, match="preprocess cannot be part of a CUDA"):
            preprocessor(array)
        with pytest.raises(endcap.UnsupportedError, match="preprocess cannot be part of a CUDA"):
            preprocessor(PIXELS, rois=[[0, 0, 9, 9]])
        assert not harmed()
    expected = endcap.preprocess(PIXELS, size=32).images
    np.testing.assert_array_equal(preprocessor(array).images.to_numpy(), expected)


@emulated
def test_a_call_that_waits_is_not_captured() -> None:
    head = on_gpu(HEAD)
    post = postprocessor()
    with capturing(0) as harmed:
        with pytest.raises(endcap.UnsupportedError, match="waits for its results"):
            post(head)
        with pytest.raises(endcap.UnsupportedError, match="being captured"):
            head.to_numpy()
        assert not harmed()
    assert post(head).to_numpy().num_detections.all()


@emulated
def test_a_captured_call_copies_nothing_from_the_host() -> None:
    head, post = on_gpu(HEAD), postprocessor()
    geometry = np.ones((2, 8), np.float32)
    post.enqueue(head, geometry)
    with capturing(0) as harmed:
        captured = post.enqueue(head)
        for arguments in ((HEAD,), (head, geometry)):
            with pytest.raises(endcap.UnsupportedError, match="a graph is being captured"):
                post.enqueue(*arguments)
        assert not harmed()
    expected = endcap.Postprocessor("yolov8", 3)(HEAD)
    np.testing.assert_array_equal(captured.to_numpy().boxes, expected.boxes)


def test_heads_of_the_host_are_read_before_the_call_returns() -> None:
    post, head, results = postprocessor(), np.empty_like(HEAD), []
    factors = np.float32([1, 0.75, 0.5, 0.4])
    for factor in factors:
        head[:] = HEAD * factor
        results.append(post.enqueue(head))
        head[:] = 0
    for factor, result in zip(factors, results, strict=True):
        expected = endcap.Postprocessor("yolov8", 3)(HEAD * factor)
        assert expected.num_detections.all()
        np.testing.assert_array_equal(result.to_numpy().scores, expected.scores)


def test_a_head_that_no_kernel_can_read_is_refused() -> None:
    head = on_gpu(np.append(HEAD.ravel(), np.float32(0)))
    pointer = head.__cuda_array_interface__["data"][0]
    with pytest.raises(endcap.InvalidArgumentError, match="does not begin at a multiple"):
        postprocessor()(ByInterface(HEAD, data=(pointer + 1, False)))


@emulated
def test_a_head_of_another_stream_is_not_captured() -> None:
    head = on_gpu(HEAD)
    post = postprocessor()
    with capturing(PER_THREAD_STREAM) as harmed:
        with pytest.raises(endcap.UnsupportedError, match="array of one stream is used on another"):
            post.enqueue(head, stream=PER_THREAD_STREAM)
        assert not harmed()


def test_memory_is_not_reused_before_its_consumer_is_done() -> None:
    """The consumer's work is still waiting when its last reference to the memory goes."""
    array = on_gpu(HEAD)
    taken = _core.CudaTensor.from_dlpack(
        array.__dlpack__(stream=PER_THREAD_STREAM), 0, PER_THREAD_STREAM
    )
    result = postprocessor().enqueue(endcap.CudaArray(taken), stream=PER_THREAD_STREAM)
    del taken, array
    gc.collect()
    others = [on_gpu(np.zeros_like(HEAD)) for _ in range(8)]
    for other in others:
        assert not other.to_numpy().any()
    expected = endcap.Postprocessor("yolov8", 3)(HEAD)
    np.testing.assert_array_equal(result.to_numpy().boxes, expected.boxes)
