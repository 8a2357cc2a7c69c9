"""max_queue_cost of endcap_preprocess: what is refused, and what that leaves alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client.calls import Call, InputTensor, OutputTensor
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions, parse_address
from tests.support import jpegs
from tests.triton import raw_http
from tests.triton.calls import grpc_inputs, infer, strings, to_arrays
from tests.triton.model_folders import tensor, write_ensemble, write_preprocess
from tests.triton.overload import FLOOD, SLOW, Flood, flood, refusal
from tests.triton.running_server import RunningServer, run_server, wait_for

SIZE = (96, 128)
PARAMETERS = {"preset": "ultralytics", "size": "96,128", "threads": 1}
MAX_QUEUE_COST = 100
ON_CPU = "instance_group { count: 1 kind: KIND_CPU }"
ENCODED = [tensor("encoded", "TYPE_STRING", [1])]
OUTPUTS = [tensor("geometry", "TYPE_FP32", [8]), tensor("status", "TYPE_INT32", [1])]

SMALL = jpegs.photo_jpeg(60, 80, seed=5)
REFUSAL = re.compile(
    r"unavailable: \d+ ms of work wait before this request, and max_queue_cost is 100 ms; "
    r"retry after \d+ ms$"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("overload")
    limited = {**PARAMETERS, "max_queue_cost": MAX_QUEUE_COST}
    for name, parameters in (("limited", limited), ("open", PARAMETERS)):
        write_preprocess(repository, name, max_batch_size=16, parameters=parameters, more=ON_CPU)
        write_preprocess(repository, f"{name}_single", parameters=parameters, more=ON_CPU)
    # All that costs more than 5 ms counts as large, where other programs take the CPUs, too.
    large = {**PARAMETERS, "max_queue_cost": 5}
    write_preprocess(repository, "strict", max_batch_size=16, parameters=large, more=ON_CPU)
    blank = {**limited, "on_error": "blank"}
    write_preprocess(repository, "blank", max_batch_size=16, parameters=blank, more=ON_CPU)
    write_ensemble(
        repository,
        "through",
        inputs=ENCODED,
        outputs=OUTPUTS,
        steps=[
            (
                "limited_single",
                {"encoded": "encoded"},
                {"geometry": "geometry", "status": "status"},
            )
        ],
    )
    with run_server(repository, "--model-control-mode=explicit", "--load-model=*") as running:
        assert {model["state"] for model in running.index().values()} == {"READY"}
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


def counted(server: RunningServer, name: str, **labels: str) -> float:
    return server.metric(f"endcap_preprocess_{name}", **labels)


def test_a_refusal_is_unavailable_with_a_hint(server, client):
    before = {name: counted(server, f"{name}_total", model="limited", **labels) for name, labels in
              (("accepted", {}), ("refused", {"reason": "queue"}))}  # fmt: skip
    failed = int(server.statistics("limited")["inference_stats"]["fail"]["count"])
    with flood(client, "limited") as load:
        error = refusal(lambda: infer(client, "limited", {"encoded": strings([SLOW])}))
        assert error.status() == "StatusCode.UNAVAILABLE"
        assert REFUSAL.match(error.message())
        assert counted(server, "queued_seconds", model="limited") > 0.01
    assert set(load.outcomes) == {"ok", "StatusCode.UNAVAILABLE"}
    accepted = counted(server, "accepted_total", model="limited") - before["accepted"]
    refused = counted(server, "refused_total", model="limited", reason="queue") - before["refused"]
    assert accepted >= load.outcomes["ok"]
    assert refused > load.outcomes["StatusCode.UNAVAILABLE"]
    sent = sum(load.outcomes.values())
    assert accepted + refused >= sent + 1
    wait_for(
        lambda: (
            int(server.statistics("limited")["inference_stats"]["fail"]["count"])
            == failed + refused
        )
    )
    assert counted(server, "queued_seconds", model="limited") == 0
    # A line in 10 seconds, not one for each.
    assert 1 <= len(server.log_lines("model 'limited' version 1: refused a request")) <= 4
    assert counted(server, "measured_seconds_total", model="limited") > 0
    assert counted(server, "prediction_error_seconds_total", model="limited") > 0


def test_over_http_it_is_503(server, client):
    encoded = [raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor([SLOW]))]

    def refused() -> Any:
        status, body, _ = raw_http.post(server.http, "limited", encoded)
        return (status, body) if status != 200 else None

    with flood(client, "limited"):
        status, body = wait_for(refused)
    assert status == 503
    assert REFUSAL.match(json.loads(body)["error"])


def test_through_an_ensemble(server, client):
    with flood(client, "limited_single", batched=False):
        error = refusal(
            lambda: infer(client, "through", {"encoded": strings([SLOW], batched=False)})
        )
    assert error.status() == "StatusCode.UNAVAILABLE"
    prefix, _, rest = error.message().partition(", ")
    assert prefix == "in ensemble 'through'"
    assert REFUSAL.match(rest)


@pytest.mark.parametrize("model", ["limited_single", "through"])
def test_a_timeout_that_cannot_be_met_is_refused(server, client, model):
    encoded = {"encoded": strings([SLOW], batched=False)}
    with pytest.raises(InferenceServerException, match="the request's timeout is 2 ms") as failure:
        infer(client, model, encoded, timeout=2000)
    assert failure.value.status() == "StatusCode.UNAVAILABLE"
    assert "retry after" not in failure.value.message()
    infer(client, model, encoded, timeout=30_000_000)
    assert counted(server, "refused_total", model="limited_single", reason="deadline") > 0


def test_a_timeout_does_not_matter_without_the_limit(client):
    infer(client, "open_single", {"encoded": strings([SLOW], batched=False)}, timeout=2000)


def test_small_images_are_served_beside_a_flood_of_others(server, client):
    small = {"encoded": strings([SMALL])}
    with flood(client, "limited") as load:
        for _ in range(30):
            infer(client, "limited", small)
    assert load.outcomes["ok"] > 0  # and those are not starved


def test_large_images_do_not_take_the_thread_of_others(server, client):
    """One is at work, one waits, and more are refused."""
    with flood(client, "strict") as load:
        for _ in range(30):
            response = infer(client, "strict", {"encoded": strings([SMALL])})
    assert load.outcomes["ok"] > 0
    expected = endcap.preprocess([SMALL], "ultralytics", size=SIZE)
    np.testing.assert_array_equal(response["images"], expected.images)


def test_responses_are_those_of_a_model_without_the_limit(client):
    for encoded in (
        strings([SMALL]),
        strings([SLOW]),
        strings([SMALL, SLOW, jpegs.photo_jpeg(200, 90, seed=2)]),
    ):
        expected = infer(client, "open", {"encoded": encoded})
        for model in ("limited", "strict"):
            response = infer(client, model, {"encoded": encoded})
            assert response.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(response[name], array)


def test_bad_images_fail_as_they_do_without_the_limit(client):
    for files in ([b"no image"], [b""], [SMALL, SLOW[:5000], SMALL]):
        errors = []
        for model in ("open", "limited", "strict"):
            with pytest.raises(InferenceServerException) as failure:
                infer(client, model, {"encoded": strings(files)})
            errors.append((failure.value.status(), failure.value.message()))
        assert len(set(errors)) == 1
    response = infer(client, "blank", {"encoded": strings([SMALL, b"no image", SMALL])})
    corrupt = int(endcap.Status.CORRUPT_IMAGE)
    assert response["status"][:, 0].tolist() == [0, corrupt, 0]
    np.testing.assert_array_equal(response["images"][0], response["images"][2])


def test_what_is_cancelled_in_the_queue_is_not_served(server, client):
    encoded = grpc_inputs({"encoded": strings([SLOW])})
    ends: list[Any] = []

    def cancelled() -> bool:
        call = client.async_infer("limited", encoded, callback=lambda _, error: ends.append(error))
        time.sleep(0.02)  # the work before it takes some 100 ms
        call.cancel()
        return counted(server, "failed_total", model="limited", reason="cancelled") >= 3

    def unserved() -> float:
        gone = counted(server, "failed_total", model="limited", reason="cancelled")
        served = counted(server, "images_total", model="limited")
        return counted(server, "accepted_total", model="limited") - served - gone

    before = unserved()
    with flood(client, "limited"):
        wait_for(cancelled)
    wait_for(lambda: unserved() == before)


def test_the_client_waits_as_long_as_the_server_asks(server, client):
    call = Call(
        "limited",
        [InputTensor.of("encoded", strings([SLOW]))],
        [OutputTensor("status")],
    )
    address = parse_address(f"grpc://{server.grpc}")
    with (
        flood(client, "limited"),
        Connection(address, ConnectionOptions(retries=0)) as once,
        Connection(address, ConnectionOptions(retries=100, timeout_s=60)) as patient,
    ):
        error = refusal(lambda: once.infer(call))
        assert error.status_name == "unavailable"
        assert error.retry_after_s == pytest.approx(0.1, abs=0.2)
        assert error.retry_after_s > 0
        assert patient.infer(call).tensors["status"].tolist() == [[0]]


def test_unloading_serves_what_was_accepted(server, client):
    before = counted(server, "accepted_total", model="limited")
    load = Flood(client, "limited", batched=True)
    load.start(FLOOD)
    wait_for(lambda: load.outcomes["StatusCode.UNAVAILABLE"] > 0)
    accepted = counted(server, "accepted_total", model="limited") - before
    client.unload_model("limited")
    load.stop()
    assert load.outcomes["ok"] >= accepted > 1
    client.load_model("limited")
    assert to_arrays(client.infer("limited", grpc_inputs({"encoded": strings([SMALL])})))
