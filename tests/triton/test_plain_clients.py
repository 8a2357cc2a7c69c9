"""Requests to `detect` by the plain tritonclient: streams, and files cut off in shared memory.

The programs of examples/ send batches, and files in shared memory (test_examples.py).
"""

from __future__ import annotations

import contextlib
import queue
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shared_memory
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import endcap
from tests.triton.plain_calls import (
    PICTURES,
    Protocol,
    assert_detections,
    detect_in_python,
    make_protocols,
)
from tests.triton.running_server import RunningServer, until_taken

# The outputs' types and rows.
OUTPUTS = {
    "num_detections": ("int32", [1]),
    "detection_boxes": ("float32", [300, 4]),
    "detection_scores": ("float32", [300]),
    "detection_classes": ("int32", [300]),
    "detection_indices": ("int32", [300]),
}


@pytest.fixture(scope="module")
def expected() -> list[endcap.ImageDetections]:
    return detect_in_python(PICTURES)


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, compiled_server: RunningServer) -> Protocol:
    compiled_server.load("detect")
    return make_protocols(compiled_server)[request.param]


def arrays(result: Any) -> dict[str, np.ndarray]:
    return {name: result.as_numpy(name) for name in OUTPUTS}


@pytest.mark.parametrize("protocol", ["grpc"], indirect=True)
def test_a_stream_goes_on_after_a_bad_picture(protocol, expected):
    """`detect` has no state: the flags of a sequence do not change its responses."""
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    files = [PICTURES[0], b"no picture", *PICTURES[1:]]
    with protocol.connect() as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        for index, file in enumerate(files):
            client.async_stream_infer(
                "detect",
                [protocol.encoded(file)],
                request_id=str(index),
                sequence_id=7,
                sequence_start=index == 0,
                sequence_end=index == len(files) - 1,
            )
        results = [responses.get(timeout=30) for _ in files]
        client.stop_stream()
    (error,) = [error for _, error in results if error is not None]
    assert "corrupt_image" in error.message()
    good = {int(r.get_response().id): arrays(r) for r, error in results if error is None}
    for index, row in ((0, 0), (2, 1), (3, 2)):
        assert_detections(good[index], expected[row : row + 1])


# --- shared memory --------------------------------------------------------------------------------


@contextlib.contextmanager
def region(client: Any, byte_size: int) -> Iterator[tuple[str, Any]]:
    """The name and the handle of a region that is registered with the server."""
    name = f"plain-{uuid.uuid4().hex}"
    handle = shared_memory.create_shared_memory_region(name, f"/{name}", byte_size)
    client.register_system_shared_memory(name, f"/{name}", byte_size)
    try:
        yield name, handle
    finally:
        until_taken(lambda: client.unregister_system_shared_memory(name), InferenceServerException)
        shared_memory.destroy_shared_memory_region(handle)


def serialized(files: list[bytes]) -> np.ndarray:
    """Each file behind its length, as BYTES lie in shared memory."""
    tensor = serialize_byte_tensor(np.array([[file] for file in files], np.object_))
    assert tensor is not None
    return tensor


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (0, "Invalid offset"),
        (3, "incomplete string length indicator for inference input 'encoded'"),
        (100, "input 'encoded' has an element of"),
    ],
)
def test_a_file_that_is_cut_off_is_one_error(protocol, cut, said):
    files = serialized(PICTURES[:1]).item()
    with protocol.connect() as client, region(client, len(files)) as (name, handle):
        shared_memory.set_shared_memory_region(handle, [np.frombuffer(files, np.uint8)])
        tensor = protocol.module.InferInput("encoded", [1, 1], "BYTES")
        tensor.set_shared_memory(name, cut)
        with pytest.raises(InferenceServerException, match=said):
            client.infer("detect", [tensor])
