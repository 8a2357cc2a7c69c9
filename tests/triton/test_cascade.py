"""The shipped cascade and Python pipelines: equal to the models that a client calls by hand."""

from __future__ import annotations

import json
import os
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.support.damage import SHIPPED, copy_model
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton import raw_http
from tests.triton.bls_models import Route, by_hand, joined
from tests.triton.calls import Arrays, grpc_inputs, infer, strings, to_arrays
from tests.triton.commands import endcap
from tests.triton.running_server import RunningServer, wait_for

SAMPLES = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))[:5]
FILES = [path.read_bytes() for path in SAMPLES]
ROUTES = dict.fromkeys(range(6), Route("preprocess_rois", "classify"))
# `detect` with a model of the Python backend for each step, and in one model.
PYTHON = ("detect_python", "detect_bls")


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer, python_models: None) -> RunningServer:
    config = copy_model("detect", compiled_server.repository, name="detect_python") / "config.pbtxt"
    text = config.read_text()
    for step in ("preprocess", "detector", "postprocess"):
        assert text.count(f'model_name: "{step}"') == 1
        text = text.replace(f'model_name: "{step}"', f'model_name: "{step}_python"')
    config.write_text(text)
    steps = ("detect", "preprocess_rois", "classify")
    compiled_server.load(*steps, "cascade", *PYTHON)
    return compiled_server


def assert_close(response: Arrays, expected: Arrays) -> None:
    """Scores and boxes of a network that runs on other batches may differ in the last bits."""
    assert response.keys() == expected.keys()
    for name, values in expected.items():
        assert response[name].dtype == values.dtype
        if values.dtype == np.float32:
            within = SERVED_BOX_PIXELS if name == "detection_boxes" else SERVED_SCORE
            np.testing.assert_allclose(response[name], values, rtol=0, atol=within)
        else:
            np.testing.assert_array_equal(response[name], values)


def test_the_cascade_classifies_a_batch_of_samples(server, client):
    response = infer(client, "cascade", {"encoded": strings(FILES)})
    expected = joined([by_hand(client, file, "detect", ROUTES) for file in FILES])
    assert (expected["class_ids"] != -1).sum() > 20
    assert_close(response, expected)


def test_python_pipelines_respond_as_the_compiled_one(server, client):
    encoded = strings(FILES)
    expected = infer(client, "detect", {"encoded": encoded})
    assert expected["num_detections"].all()
    for model in PYTHON:
        response = infer(client, model, {"encoded": encoded})
        assert response.keys() == expected.keys()
        for name, values in expected.items():
            assert response[name].tobytes() == values.tobytes(), name


def test_a_bad_image_fails_its_request_of_a_python_pipeline_and_no_other(server):
    responses: queue.Queue[tuple[int, object, object]] = queue.Queue()
    with grpc_client.InferenceServerClient(server.grpc) as client:
        for index, file in enumerate([FILES[0], b"no picture", FILES[0]]):
            client.async_infer(
                "detect_bls",
                grpc_inputs({"encoded": strings([file])}),
                callback=lambda result, error, index=index: responses.put((index, result, error)),
                request_id=f"detect_bls-{index}",
            )
        for _ in range(3):
            index, result, error = responses.get(timeout=30)
            if index == 1:
                assert error.status() == "StatusCode.INVALID_ARGUMENT"
                assert error.message().startswith("model 'preprocess': ")
                assert "corrupt_image: the data is not an image" in error.message()
            else:
                assert to_arrays(result)["num_detections"].all()
    wait_for(lambda: server.log_lines("model 'detect_bls' version 1, request 'detect_bls-1': "))


@pytest.mark.parametrize("model", ["cascade", "detect_bls"])
def test_request_with_undecodable_id(server, model):
    encoded = raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor(FILES[:1]))
    status, body, json_bytes = raw_http.post(
        server.http, model, [encoded], request_id=os.fsdecode(b"\xff")
    )
    assert status == 200, body
    response = raw_http.to_arrays(body.replace(b"\xff", b"?", 1), json_bytes)
    assert response["num_detections"].all()


def test_endcap_infer_prints_the_class_of_each_detection(server, client):
    done = endcap("infer", SAMPLES[0], "--url", server.grpc, "--model", "cascade", "--json")
    assert done.returncode == 0, done.stderr
    (response,) = json.loads(done.stdout)
    expected = by_hand(client, FILES[0], "detect", ROUTES)
    assert len(response["detections"]) == expected["num_detections"].item() > 3
    for r, row in enumerate(response["detections"]):
        assert row["classification"]["class_id"] == expected["class_ids"][0, r]
        assert row["classification"]["label"] == expected["class_labels"][0, r].decode()
