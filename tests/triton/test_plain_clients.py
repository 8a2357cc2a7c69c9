"""The ways of NVIDIA's example clients, written with the plain tritonclient, to our ensembles.

Files in batches over both protocols, callbacks, asyncio and streams. The requests of image_client
and its like are in test_image_clients.py.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http.aio as http_aio
from tritonclient.utils import InferenceServerException

import endcap
from tests.triton.plain_calls import (
    PICTURES,
    SHIPPED,
    Protocol,
    assert_detections,
    detect_in_python,
    protocols_of,
)
from tests.triton.running_server import RunningServer, run_server

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
