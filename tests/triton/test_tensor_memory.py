"""Where tensors lie: addresses that do not suit their elements, and shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.support import sample_heads
from tests.triton import raw_http
from tests.triton.calls import infer
from tests.triton.raw_http import RawTensor
from tests.triton.running_server import RunningServer, until_taken
from tests.triton.served_models import ANCHORS, MAX_DETECTIONS, NUM_CLASSES

HEAD = sample_heads.yolov8_head(5, anchors=ANCHORS, num_classes=NUM_CLASSES)[None]
GEOMETRY = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0]], np.float32)
BOXES = (1, MAX_DETECTIONS, 4)
BOX_BYTES = MAX_DETECTIONS * 4 * 4


@dataclass(frozen=True)
class Region:
    """System shared memory that the server knows by its name."""

    name: str
    handle: object


@pytest.fixture
def region(server: RunningServer, client) -> Iterator[Region]:
    name = f"endcap_alignment_{os.getpid()}"
    size = HEAD.nbytes + BOX_BYTES + 64
    handle = shm.create_shared_memory_region(name, f"/{name}", size)
    client.register_system_shared_memory(name, f"/{name}", size)
    yield Region(name, handle)

    until_taken(lambda: client.unregister_system_shared_memory(name), InferenceServerException)
    shm.destroy_shared_memory_region(handle)


@pytest.mark.parametrize("id_length", range(4))
def test_http_responds_alike_wherever_the_tensors_lie(client, server: RunningServer, id_length):
    tensors = [
        RawTensor("head", "FP32", HEAD.shape, HEAD.tobytes()),
        RawTensor("geometry", "FP32", GEOMETRY.shape, GEOMETRY.tobytes()),
    ]
    status, body, json_bytes = raw_http.post(
        server.http, "post", tensors, request_id="i" * id_length
    )
    assert status == 200, body
    response = raw_http.to_arrays(body, json_bytes)
    expected = infer(client, "post", {"head": HEAD, "geometry": GEOMETRY})
    assert expected["num_detections"][0, 0] > 0
    for name, array in expected.items():
        np.testing.assert_array_equal(response[name], array, name)


def infer_boxes(
    client,
    region: Region,
    *,
    input_offset: int = 0,
    output_offset: int = 0,
    output_bytes: int = BOX_BYTES,
) -> np.ndarray:
    """Head and boxes in the region, the boxes behind the head and 32 bytes."""
    shm.set_shared_memory_region(region.handle, [HEAD], offset=input_offset)
    head = grpc_client.InferInput("head", list(HEAD.shape), "FP32")
    head.set_shared_memory(region.name, HEAD.nbytes, offset=input_offset)
    boxes = grpc_client.InferRequestedOutput("detection_boxes")
    start = HEAD.nbytes + 32 + output_offset
    boxes.set_shared_memory(region.name, output_bytes, offset=start)
    client.infer("post", [head], outputs=[boxes])
    return shm.get_contents_as_numpy(region.handle, np.float32, BOXES, offset=start)


@pytest.mark.parametrize("offset", range(4))
def test_shared_memory_at_any_offset(client, region, offset):
    expected = infer(client, "post", {"head": HEAD})["detection_boxes"]
    np.testing.assert_array_equal(infer_boxes(client, region, input_offset=offset), expected)
    if offset:
        said = r"invalid_argument: .*'detection_boxes'.*multiple of 4"
        with pytest.raises(InferenceServerException, match=said) as error:
            infer_boxes(client, region, output_offset=offset)
        assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_what_the_server_refuses_keeps_its_class(client, region):
    with pytest.raises(InferenceServerException) as error:
        infer_boxes(client, region, output_bytes=BOX_BYTES - 4)
    assert error.value.status() == "StatusCode.INTERNAL"
    assert error.value.message().startswith("internal: shared memory size")


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (0, "Invalid offset"),
        (3, "incomplete string length indicator for inference input 'encoded'"),
        (20, "input 'encoded' has an element of"),
    ],
)
def test_a_file_that_is_cut_off_is_one_error(compiled_server, client, region, cut, said):
    compiled_server.load("detect")
    tensor = grpc_client.InferInput("encoded", [1, 1], "BYTES")
    tensor.set_shared_memory(region.name, cut)
    content = np.frombuffer((100).to_bytes(4, "little") + bytes(100), np.uint8)  # behind its length
    shm.set_shared_memory_region(region.handle, [content])
    with pytest.raises(InferenceServerException, match=said):
        client.infer("detect", [tensor])
