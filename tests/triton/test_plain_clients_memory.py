"""NVIDIA's examples of system shared memory, with the plain tritonclient, against our models."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shared_memory
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.triton.plain_calls import (
    PICTURES,
    Protocol,
    assert_detections,
    detect_in_python,
    protocols_of,
)
from tests.triton.running_server import RunningServer, until_taken

NAMES = ["num_detections", "detection_boxes", "detection_scores", "detection_classes"]
ROOMS = {
    "num_detections": ("int32", [1]),
    "detection_boxes": ("float32", [300, 4]),
    "detection_scores": ("float32", [300]),
    "detection_classes": ("int32", [300]),
}


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, cascade_server: RunningServer) -> Protocol:
    return protocols_of(cascade_server)[request.param]


class Region:
    """A region of a name of its own, registered with the server."""

    def __init__(self, client: Any, byte_size: int) -> None:
        self.name = f"plain-{uuid.uuid4().hex}"
        self.handle = shared_memory.create_shared_memory_region(
            self.name, f"/{self.name}", byte_size
        )
        client.register_system_shared_memory(self.name, f"/{self.name}", byte_size)


@contextlib.contextmanager
def region(client: Any, byte_size: int) -> Iterator[Region]:
    made = Region(client, byte_size)
    try:
        yield made
    finally:
        until_taken(
            lambda: client.unregister_system_shared_memory(made.name), InferenceServerException
        )
        shared_memory.destroy_shared_memory_region(made.handle)


def serialized(files: list[bytes]) -> np.ndarray:
    """Each file behind its length, as BYTES lie in shared memory."""
    tensor = serialize_byte_tensor(np.array([[file] for file in files], np.object_))
    assert tensor is not None
    return tensor


def size_of(name: str, count: int) -> int:
    dtype, row = ROOMS[name]
    return count * int(np.prod(row)) * np.dtype(dtype).itemsize


def test_files_and_detections_in_shared_memory(protocol: Protocol) -> None:
    count, files = len(PICTURES), serialized(PICTURES)
    input_bytes = len(files.item())
    output_bytes = sum(size_of(name, count) for name in NAMES)
    with (
        protocol.connect() as client,
        region(client, input_bytes) as given,
        region(client, output_bytes) as taken,
    ):
        shared_memory.set_shared_memory_region(given.handle, [files])
        tensor = protocol.module.InferInput("encoded", [count, 1], "BYTES")
        tensor.set_shared_memory(given.name, input_bytes)
        outputs, offset, offsets = [], 0, {}
        for name in NAMES:
            output = protocol.module.InferRequestedOutput(name)
            output.set_shared_memory(taken.name, size_of(name, count), offset=offset)
            outputs.append(output)
            offsets[name] = offset
            offset += size_of(name, count)
        result = client.infer("detect", [tensor], outputs=outputs)
        for name in NAMES:
            assert result.get_output(name) is not None
        response = {
            name: shared_memory.get_contents_as_numpy(
                taken.handle, ROOMS[name][0], [count, *ROOMS[name][1]], offset=offsets[name]
            ).copy()
            for name in NAMES
        }
    assert_detections(response, detect_in_python(PICTURES))


def test_a_region_that_is_too_small_for_an_output_is_one_error(protocol: Protocol) -> None:
    with protocol.connect() as client, region(client, 16) as made:
        output = protocol.module.InferRequestedOutput("detection_boxes")
        output.set_shared_memory(made.name, 16)
        with pytest.raises(InferenceServerException, match="detection_boxes"):
            client.infer("detect", [protocol.encoded(PICTURES[0])], outputs=[output])
        result = client.infer("detect", [protocol.encoded(PICTURES[0])])
        assert result.as_numpy("num_detections")[0, 0] > 0


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (0, "Invalid offset"),
        (3, "incomplete string length indicator for inference input 'encoded'"),
        (100, "input 'encoded' has an element of"),
    ],
)
def test_a_file_that_is_cut_off_is_one_error(protocol: Protocol, cut: int, said: str) -> None:
    files = serialized(PICTURES[:1]).item()
    with protocol.connect() as client, region(client, len(files)) as made:
        shared_memory.set_shared_memory_region(made.handle, [np.frombuffer(files, np.uint8)])
        tensor = protocol.module.InferInput("encoded", [1, 1], "BYTES")
        tensor.set_shared_memory(made.name, cut)
        with pytest.raises(InferenceServerException, match=said):
            client.infer("detect", [tensor])
