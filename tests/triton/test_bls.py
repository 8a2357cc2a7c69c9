"""endcap_bls: a cascade of other models of the server, called without Python."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton import bls_models, raw_http
from tests.triton.bls_calls import assert_same, at_once, joined, send, send_request
from tests.triton.bls_models import ROWS, told
from tests.triton.calls import infer, strings
from tests.triton.cascade_by_hand import by_hand
from tests.triton.guide_metrics import names_in_the_guide, names_of, with_prefix
from tests.triton.running_server import RunningServer, rested, run_server, wait_for

PHOTO = jpegs.photo_jpeg(120, 160)
OTHER = jpegs.photo_jpeg(90, 100, seed=5)
CLASS_OUTPUTS = ["class_ids", "class_scores", "class_labels"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("cascades")
    bls_models.write_all(repository)
    caches = "--cache-config=local,size=4194304"
    options = ("--model-control-mode=explicit", "--load-model=*", caches)
    with run_server(repository, *options) as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


@pytest.mark.parametrize("count", [0, 1, 30, ROWS])
def test_response_equals_the_steps_by_hand(client, count):
    file = told(PHOTO, count=count)
    expected = by_hand(client, file)
    assert_same(send_request(client, [file]), expected)
    classified = expected["class_ids"] >= 0
    # Every fourth class has no route, and the last ten rows no score above the threshold.
    assert classified.sum() == min(count, 30) - min(count, 30) // 4


def test_several_images_of_a_request(client):
    files = [told(PHOTO, count=3), told(OTHER, count=0), told(OTHER, count=20)]
    assert_same(send_request(client, files), joined([by_hand(client, file) for file in files]))


def test_model_without_batch_dimension(client):
    file = told(PHOTO, count=6)
    response = infer(client, "single", {"encoded": strings([file], batched=False)})
    assert response["detection_boxes"].shape == (ROWS, 4)
    assert_same(response, {name: array[0] for name, array in by_hand(client, file).items()})


@pytest.mark.parametrize(
    "wanted", [["class_ids"], ["class_labels", "num_detections"], ["detection_boxes"], ["status"]]
)
def test_response_has_the_requested_outputs_only(client, wanted):
    file = told(PHOTO, count=4)
    expected = by_hand(client, file)
    assert_same(
        send_request(client, [file], outputs=wanted), {name: expected[name] for name in wanted}
    )


def test_no_region_is_cropped_for_a_request_without_classes(client, server):
    before = server.requests("rois")
    send_request(client, [told(PHOTO, count=4)], outputs=["detection_scores"])
    send_request(client, [told(PHOTO, count=0)])
    assert server.requests("rois") == before
    send_request(client, [told(PHOTO, count=4), told(PHOTO, count=20)])
    assert server.requests("rois") == before + 2  # an image is decoded once, for all its regions


def test_over_http_in_pieces(client, server):
    files = [told(PHOTO, count=3), told(OTHER, count=9)]
    encoded = raw_http.RawTensor("encoded", "BYTES", [2, 1], raw_http.bytes_tensor(files))
    status, body, json_bytes = raw_http.post(server.http, "cascade", [encoded], chunk_bytes=700)
    assert status == 200
    response = raw_http.to_arrays(body, json_bytes)
    assert_same(response, joined([by_hand(client, file) for file in files]))


@pytest.mark.parametrize("model", ["cascade", "narrow"])
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


def test_a_request_that_fails_in_a_shared_call_fails_alone(client, server):
    good = told(PHOTO, count=5)
    expected = by_hand(client, good)
    executions = server.executions("cascade")
    responses = at_once(client, [good, told(PHOTO, fail="no such thing"), good, good], "cascade")
    assert server.executions("cascade") - executions < 4  # some together
    for response in (responses[0], responses[2], responses[3]):
        assert_same(response, expected)
    error = responses[1]
    assert isinstance(error, InferenceServerException)
    assert error.message().startswith("model 'found': no such thing")
    assert error.status() == "StatusCode.UNIMPLEMENTED"


def test_a_bad_image_fails_alone_with_its_class(client):
    good = told(PHOTO, count=5)
    responses = at_once(client, [good, told(b"no picture", count=2), good], "strict")
    error = responses[1]
    assert isinstance(error, InferenceServerException)
    assert error.message().startswith(
        "model 'rois_strict': corrupt_image: the data is not an image"
    )
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    for response in (responses[0], responses[2]):
        assert isinstance(response, dict)
        assert (response["class_ids"] >= 0).sum() == 5


def test_a_region_that_cannot_be_cropped_is_not_classified(client):
    response = send_request(client, [told(b"no picture", count=5)])
    assert response["num_detections"].item() == 5
    assert (response["class_ids"] == -1).all()


def test_missing_detection_model(client, server):
    with pytest.raises(InferenceServerException) as error:
        send_request(client, [told(PHOTO)], "orphan")
    assert error.value.message().startswith("model 'nowhere': Request for unknown model")
    assert error.value.status() == "StatusCode.NOT_FOUND"
    assert server.log_lines("model 'orphan' version 1 calls model 'nowhere', which is not ready")


def test_missing_classifier_fails_only_requests_that_need_it(client):
    responses = at_once(client, [told(PHOTO, count=0), told(PHOTO, count=2)], "classless")
    assert isinstance(responses[0], dict)
    assert isinstance(responses[1], InferenceServerException)
    assert "model 'nobody': " in responses[1].message()


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
    labels = {"model": "cascade", "reason": "cancelled"}
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
    executions = server.executions("cascade")
    given_up = send(client, slow, "gone")
    send(client, slow, "stays", lambda result, error: responses.append(error or result))
    time.sleep(0.4)
    given_up.cancel()
    wait_for(lambda: responses)
    assert not isinstance(responses[0], InferenceServerException), responses[0]
    assert responses[0].as_numpy("num_detections").item() == 3
    wait_for(lambda: server.statistics("cascade")["execution_count"] == executions + 1)


def test_unloading_during_a_request(client, server):
    responses: list[Any] = []
    send(
        client,
        told(PHOTO, count=30, wait_s=0.8),
        "last",
        lambda result, error: responses.append(error or result),
    )
    time.sleep(0.3)
    client.unload_model("cascade")
    wait_for(lambda: responses)
    assert responses[0].as_numpy("num_detections").item() == 30
    wait_for(lambda: server.index()["cascade"]["state"] == "UNAVAILABLE")
    client.load_model("cascade")
    assert_same(send_request(client, [told(PHOTO, count=2)]), by_hand(client, told(PHOTO, count=2)))


def test_composing_model_that_is_loaded_again(client):
    file = told(PHOTO, count=3)
    expected = by_hand(client, file)
    client.unload_model("kinds")
    wait_for(lambda: not client.is_model_ready("kinds"))
    with pytest.raises(InferenceServerException, match="model 'kinds': "):
        send_request(client, [file])
    client.load_model("kinds")
    assert_same(send_request(client, [file]), expected)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "classifier",
            "*=rois+kinds",
            "'classifier' is not a parameter of this backend: there are",
        ),
        (
            "detect_model",
            "narrow",
            "detect_model names 'narrow', which is this model, and a cascade",
        ),
    ],
)
def test_an_invalid_parameter_fails_the_load(client, name, value, says):
    parameters = {name: {"string_value": value}}
    config = {"backend": "endcap_bls", "max_batch_size": 8, "parameters": parameters}
    with pytest.raises(InferenceServerException) as error:
        client.load_model("narrow", config=json.dumps(config))
    assert says in error.value.message()
    assert_same(
        send_request(client, [told(PHOTO, count=2)], "narrow"),
        by_hand(client, told(PHOTO, count=2)),
    )


def test_the_guide_has_the_metrics(server):
    of_backend = with_prefix(names_of(server), "endcap_bls_")
    assert of_backend
    assert of_backend == with_prefix(names_in_the_guide(), "endcap_bls_")


def test_metrics(client, server):
    def values() -> list[float]:
        return [
            server.metric(f"endcap_bls_{name}_total", model="cascade")
            for name in ("images", "crops", "inner_calls")
        ]

    before = values()
    send_request(client, [told(PHOTO, count=8), told(PHOTO, count=1)])
    images, crops, calls = np.subtract(values(), before)
    assert (images, crops) == (2, 7)
    # Detection; two images' regions; three crops one by one, and four together.
    assert calls == 1 + 2 + 3 + 1


def test_memory_does_not_grow(client, server):
    files = [told(PHOTO, count=30), told(OTHER, count=2)]
    for _ in range(100):
        send_request(client, files, "strict")
    before = server.resident_bytes()
    for _ in range(500):
        send_request(client, files, "strict")
    assert server.resident_bytes() - before < 4 * 2**20
