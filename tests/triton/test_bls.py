"""endcap_bls: a cascade of other models of the server, called without Python."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton import bls_models
from tests.triton.bls_models import ROWS, at_once, by_hand, send, send_request, told
from tests.triton.calls import Arrays, infer, strings
from tests.triton.running_server import (
    RunningServer,
    metrics_in_the_guide,
    rested,
    wait_for,
)

PHOTO = jpegs.photo_jpeg(120, 160)
OTHER = jpegs.photo_jpeg(90, 100, seed=5)

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer, python_models: None) -> RunningServer:
    compiled_server.load(*bls_models.write_all(compiled_server.repository))
    models = ("found", "found_cached", "kinds", "kinds_single", "kinds_failing")
    compiled_server.load(*models, "kinds_odd", "crops", "crops_strict")
    return compiled_server


def assert_same(response: Arrays | InferenceServerException, expected: Arrays) -> None:
    assert isinstance(response, dict), response
    assert set(response) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(response[name], array, err_msg=name)


@pytest.mark.parametrize("count", [0, 30, ROWS])
def test_response_equals_the_steps_by_hand(client, count):
    file = told(PHOTO, count=count)
    expected = by_hand(client, file)
    assert_same(send_request(client, [file]), expected)
    # Every fourth class has no route, and the last ten rows no score above the threshold.
    assert (expected["class_ids"] >= 0).sum() == min(count, 30) - min(count, 30) // 4
    assert_same(
        infer(client, "single", {"encoded": strings([file], batched=False)}),
        {name: array[0] for name, array in expected.items()},
    )
    for wanted in (["class_ids"], ["class_labels", "num_detections"], ["detection_boxes"]):
        response = send_request(client, [file], outputs=wanted)
        assert_same(response, {name: expected[name] for name in wanted})


def test_no_region_is_cropped_for_a_request_without_classes(client, server):
    before = server.requests("crops")
    send_request(client, [told(PHOTO, count=4)], outputs=["detection_scores"])
    send_request(client, [told(PHOTO, count=0)])
    assert server.requests("crops") == before
    send_request(client, [told(PHOTO, count=4), told(PHOTO, count=20)])
    assert server.requests("crops") == before + 2  # an image is decoded once, for all its regions


@pytest.mark.parametrize("model", ["routed", "narrow"])
def test_eight_clients_at_once(client, server, model):
    files = [told(PHOTO if i % 2 else OTHER, count=[0, 1, 30, 7][i % 4]) for i in range(8)]
    expected = [by_hand(client, file) for file in files]
    start = threading.Barrier(8)

    def run(index: int) -> None:
        with grpc_client.InferenceServerClient(server.grpc) as own:
            start.wait()
            for _ in range(6):
                assert_same(send_request(own, [files[index]], model), expected[index])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


# --- failures -------------------------------------------------------------------------------------


def test_a_request_that_fails_in_a_shared_call_fails_alone(client, server):
    good = told(PHOTO, count=5)
    expected = by_hand(client, good)
    executions = server.executions("routed")
    responses = at_once(client, [good, told(PHOTO, fail="no such thing"), good, good], "routed")
    assert server.executions("routed") - executions < 4  # some together
    error = responses.pop(1)
    for response in responses:
        assert_same(response, expected)
    assert isinstance(error, InferenceServerException)
    assert error.message().startswith("model 'found': no such thing")
    assert error.status() == "StatusCode.UNIMPLEMENTED"


def test_a_bad_image_fails_alone_with_its_class_or_is_not_classified(client):
    good, bad = told(PHOTO, count=5), told(b"no picture", count=5)
    responses = at_once(client, [good, bad, good], "strict")
    error = responses.pop(1)
    assert isinstance(error, InferenceServerException)
    said = "model 'crops_strict': corrupt_image: the data is not an image"
    assert error.message().startswith(said)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    for response in responses:
        assert (response["class_ids"] >= 0).sum() == 5
    response = send_request(client, [bad])  # `crops` leaves it blank
    assert response["num_detections"].item() == 5
    assert (response["class_ids"] == -1).all()


def test_missing_models(client, server):
    with pytest.raises(InferenceServerException) as error:
        send_request(client, [told(PHOTO)], "orphan")
    assert error.value.message().startswith("model 'nowhere': Request for unknown model")
    assert error.value.status() == "StatusCode.NOT_FOUND"
    assert server.log_lines("model 'orphan' version 1 calls model 'nowhere', which is not ready")
    needless, failing = at_once(client, [told(PHOTO), told(PHOTO, count=2)], "classless")
    assert isinstance(needless, dict)
    assert isinstance(failing, InferenceServerException)
    assert "model 'nobody': " in failing.message()


@pytest.mark.parametrize(
    ("model", "failing", "says"),
    [
        ("on_failing", [1], "model 'kinds_failing': too bright"),
        ("on_odd", [0, 1, 3], "'kinds_odd': gave output 'class_ids' of another type than TYPE_INT"),
    ],
)
def test_a_classifier_that_fails_does_so_for_its_own_requests(client, model, failing, says):
    dark, bright = (jpegs.encode(np.full((90, 90, 3), level, np.uint8)) for level in (60, 240))
    files = [told(dark, count=1), told(bright, count=1), told(bright, count=0), told(dark, count=1)]
    for index, response in enumerate(at_once(client, files, model)):
        if index in failing:
            assert isinstance(response, InferenceServerException)
            assert says in response.message()
        else:
            assert isinstance(response, dict)
            count = 0 if index == 2 else 1
            assert response["num_detections"].item() == count
            assert (response["class_ids"] == 23).sum() == count


# --- calls ----------------------------------------------------------------------------------------


def test_detector_with_response_cache(client, server):
    """It responds from within the call then, on the thread that calls."""

    def hits() -> int:
        stats = server.statistics("found_cached")["inference_stats"]
        return int(stats["cache_hit"]["count"])

    file = told(PHOTO, count=5)
    expected = by_hand(client, file)
    before = rested(hits)
    for _ in range(4):
        assert_same(send_request(client, [file], "cached"), expected)
    assert rested(hits) == before + 3


def test_a_cancelled_request_cancels_its_calls(client, server):
    labels = {"model": "routed", "reason": "cancelled"}
    before = server.metric("endcap_bls_failed_total", **labels)
    call = send(client, told(PHOTO, count=1, wait_s=20), "given-up")
    time.sleep(0.3)
    call.cancel()
    wait_for(lambda: server.log_lines("found: given-up is cancelled"), timeout_s=5)
    wait_for(lambda: server.metric("endcap_bls_failed_total", **labels) == before + 1)
    assert_same(send_request(client, [told(PHOTO, count=2)]), by_hand(client, told(PHOTO, count=2)))


def test_a_shared_call_continues_for_the_other_requests(client, server):
    """Both are in one call; the first to be cancelled must not take the other with it."""
    responses: list[Any] = []
    slow = told(PHOTO, count=3, wait_s=1.0)
    executions = server.executions("routed")
    given_up = send(client, slow, "gone")
    send(client, slow, "stays", lambda result, error: responses.append(error or result))
    time.sleep(0.4)
    given_up.cancel()
    wait_for(lambda: responses)
    assert not isinstance(responses[0], InferenceServerException), responses[0]
    assert responses[0].as_numpy("num_detections").item() == 3
    wait_for(lambda: server.statistics("routed")["execution_count"] == executions + 1)


def test_models_that_are_unloaded_and_loaded_again(client, server):
    responses: list[Any] = []
    done = lambda result, error: responses.append(error or result)  # noqa: E731
    send(client, told(PHOTO, count=30, wait_s=0.8), "last", done)
    time.sleep(0.3)
    client.unload_model("routed")
    wait_for(lambda: responses)
    assert responses[0].as_numpy("num_detections").item() == 30
    wait_for(lambda: server.index()["routed"]["state"] == "UNAVAILABLE")
    client.load_model("routed")
    file = told(PHOTO, count=3)
    expected = by_hand(client, file)
    client.unload_model("kinds")
    wait_for(lambda: not client.is_model_ready("kinds"))
    with pytest.raises(InferenceServerException, match="model 'kinds': "):
        send_request(client, [file])
    client.load_model("kinds")
    assert_same(send_request(client, [file]), expected)


def test_metrics(client, server):
    def values() -> list[float]:
        return [
            server.metric(f"endcap_bls_{name}_total", model="routed")
            for name in ("images", "crops", "inner_calls")
        ]

    before = values()
    send_request(client, [told(PHOTO, count=8), told(PHOTO, count=1)])
    images, crops, calls = np.subtract(values(), before)
    assert (images, crops) == (2, 7)
    # Detection; two images' regions; three crops one by one, and four together.
    assert calls == 1 + 2 + 3 + 1
    assert server.metrics("bls") == metrics_in_the_guide("bls")


def test_memory_does_not_grow(client, server):
    files = [told(PHOTO, count=30), told(OTHER, count=2)]
    for _ in range(100):
        send_request(client, files, "strict")
    before = server.resident_bytes()
    for _ in range(500):
        send_request(client, files, "strict")
    assert server.resident_bytes() - before < 4 * 2**20
