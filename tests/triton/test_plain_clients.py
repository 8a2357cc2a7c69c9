"""The ways of NVIDIA's example clients, written with the plain tritonclient, to our ensembles.

Their kinds: files and tensors in batches over both protocols, Triton's classification, async_infer
of gRPC and HTTP, asyncio, and streams with and without sequences. The requests of image_client and
its like to the models that are there for them: test_image_clients.py.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http.aio as http_aio
from PIL import Image
from plain_calls import (
    PICTURES,
    SHIPPED,
    Protocol,
    assert_detections,
    detect_in_python,
    protocols_of,
)
from running_server import RunningServer, run_server
from tritonclient.utils import InferenceServerException

import endcap

NAMES = ["num_detections", "detection_boxes", "detection_scores", "detection_classes"]


@pytest.fixture(scope="module")
def expected() -> list[endcap.ImageDetections]:
    return detect_in_python(PICTURES)


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protocol]:
    """gRPC to a server without decoupled models, which the streams to ordinary ones may harm."""
    repository = tmp_path_factory.mktemp("ordinary") / "models"
    for name in ("preprocess", "detector", "postprocess", "detect"):
        shutil.copytree(SHIPPED / name, repository / name)
    with run_server(repository) as running:
        yield protocols_of(running)["grpc"]


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, cascade_server: RunningServer) -> Protocol:
    return protocols_of(cascade_server)[request.param]


def arrays(result: Any) -> dict[str, np.ndarray]:
    return {name: result.as_numpy(name) for name in NAMES}


def wanted(module: Any) -> list[Any]:
    return [module.InferRequestedOutput(name) for name in NAMES]


def test_files_of_pictures_in_one_batch(protocol, expected):
    with protocol.connect() as client:
        result = client.infer(
            "detect", [protocol.encoded(*PICTURES)], outputs=wanted(protocol.module)
        )
    assert_detections(arrays(result), expected)


def test_outputs_that_are_not_named_come_too(protocol, expected):
    with protocol.connect() as client:
        result = client.infer("detect", [protocol.encoded(*PICTURES[:1])], request_id="picture 1")
    response = result.get_response()
    identity = response["id"] if isinstance(response, dict) else response.id
    assert identity == "picture 1"
    assert result.as_numpy("status").tolist() == [[0]]
    assert_detections(arrays(result), expected[:1])


def test_the_best_of_an_output_by_tritons_classification(protocol, expected):
    output = protocol.module.InferRequestedOutput("detection_scores", class_count=3)
    with protocol.connect() as client:
        result = client.infer("detect", [protocol.encoded(*PICTURES)], outputs=[output])
    best = result.as_numpy("detection_scores")
    for row, each in zip(best.tolist(), expected, strict=True):
        scores = [float(text.split(b":")[0]) for text in row]
        np.testing.assert_allclose(scores[: len(each)], each.scores[:3], atol=1e-4)
        assert [int(text.split(b":")[1]) for text in row][: len(each)] == [0, 1, 2][: len(each)]


def test_a_tensor_that_the_client_made_is_classified(protocol):
    """A client that scales and normalises the picture itself, and requests labels and scores."""
    with protocol.connect() as client:
        metadata = client.get_model_metadata("classify")
        inputs = metadata["inputs"] if isinstance(metadata, dict) else metadata.inputs
        (declared,) = inputs
        name = declared["name"] if isinstance(declared, dict) else declared.name
        shape = declared["shape"] if isinstance(declared, dict) else declared.shape
        assert [int(side) for side in shape] == [-1, 3, 224, 224]
        pictures = [Image.new("RGB", (300, 200), color) for color in ("red", "blue", "black")]
        scaled = [np.asarray(each.resize((224, 224)), np.float32) / 255 for each in pictures]
        mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        batch = np.stack([((each - mean) / std).transpose(2, 0, 1) for each in scaled])
        tensor = protocol.module.InferInput(name, list(batch.shape), "FP32")
        tensor.set_data_from_numpy(batch)
        outputs = [
            protocol.module.InferRequestedOutput("class_labels"),
            protocol.module.InferRequestedOutput("class_scores", class_count=1),
        ]
        result = client.infer("classify", [tensor], outputs=outputs)
    assert result.as_numpy("class_labels").tolist() == [[b"red"], [b"blue"], [b"black"]]
    for (text,) in result.as_numpy("class_scores").tolist():
        score, index = text.split(b":")
        assert 0 < float(score) <= 1
        assert index == b"0"


def test_callbacks_of_grpc(cascade_server, expected):
    protocol, responses = protocols_of(cascade_server)["grpc"], queue.Queue()
    with protocol.connect() as client:
        for index, file in enumerate(PICTURES):
            client.async_infer(
                "detect",
                [protocol.encoded(file)],
                callback=lambda result, error, index=index: responses.put((index, result, error)),
                outputs=wanted(grpc_client),
            )
        for _ in PICTURES:
            index, result, error = responses.get(timeout=30)
            assert error is None
            assert_detections(arrays(result), expected[index : index + 1])


def test_a_callback_is_told_of_a_bad_picture(cascade_server):
    protocol, responses = protocols_of(cascade_server)["grpc"], queue.Queue()
    with protocol.connect() as client:
        client.async_infer(
            "detect",
            [protocol.encoded(b"no picture")],
            callback=lambda result, error: responses.put(error),
        )
        error = responses.get(timeout=30)
    assert isinstance(error, InferenceServerException)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "corrupt_image" in error.message()


def test_futures_of_http(cascade_server, expected):
    protocol = protocols_of(cascade_server)["http"]
    with protocol.connect(concurrency=len(PICTURES)) as client:
        waiting = [client.async_infer("detect", [protocol.encoded(file)]) for file in PICTURES]
        for index, each in enumerate(waiting):
            assert_detections(arrays(each.get_result()), expected[index : index + 1])


@pytest.mark.parametrize("module", [grpc_aio, http_aio], ids=["grpc", "http"])
def test_asyncio(cascade_server, expected, module):
    own = "grpc" if module is grpc_aio else "http"
    protocol = protocols_of(cascade_server)[own]

    async def send_request() -> list[Any]:
        async with module.InferenceServerClient(protocol.url) as client:
            assert await client.is_server_live()
            assert await client.is_model_ready("detect")
            requests = [client.infer("detect", [protocol.encoded(file)]) for file in PICTURES]
            return await asyncio.gather(*requests)

    for index, result in enumerate(asyncio.run(send_request())):
        assert_detections(arrays(result), expected[index : index + 1])


def test_a_stream_of_requests_with_the_flags_of_a_sequence(ordinary, expected):
    """`detect` has no state: a sequence's flags pass it by."""
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with ordinary.connect() as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        for index, file in enumerate(PICTURES):
            client.async_stream_infer(
                "detect",
                [ordinary.encoded(file)],
                request_id=str(index),
                sequence_id=7,
                sequence_start=index == 0,
                sequence_end=index == len(PICTURES) - 1,
            )
        for _ in PICTURES:
            result, error = responses.get(timeout=30)
            assert error is None
            index = int(result.get_response().id)
            assert_detections(arrays(result), expected[index : index + 1])
        client.stop_stream()


def test_a_stream_goes_on_after_a_bad_picture(ordinary, expected):
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with ordinary.connect() as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        client.async_stream_infer("detect", [ordinary.encoded(b"no picture")])
        _, error = responses.get(timeout=30)
        assert "corrupt_image" in error.message()
        client.async_stream_infer("detect", [ordinary.encoded(PICTURES[0])])
        result, error = responses.get(timeout=30)
        assert error is None
        assert_detections(arrays(result), expected[:1])


def test_a_stream_of_asyncio_with_a_sequence_of_a_text(ordinary, expected):
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for index, file in enumerate(PICTURES):
            yield {
                "model_name": "detect",
                "inputs": [ordinary.encoded(file)],
                "request_id": str(index),
                "sequence_id": "a camera",
                "sequence_start": index == 0,
                "sequence_end": index == len(PICTURES) - 1,
            }

    async def send_request() -> list[tuple[Any, Any]]:
        async with grpc_aio.InferenceServerClient(ordinary.url) as client:
            responses = client.stream_infer(requests())
            return [response async for response in responses]

    responses = asyncio.run(send_request())
    assert sorted(int(result.get_response().id) for result, _ in responses) == [0, 1, 2]
    for result, error in responses:
        assert error is None
        index = int(result.get_response().id)
        assert_detections(arrays(result), expected[index : index + 1])
