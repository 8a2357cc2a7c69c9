"""max_queue_cost of endcap_preprocess: what is refused, and what that leaves alone."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton import raw_http
from tests.triton.calls import grpc_inputs, infer, strings, to_arrays
from tests.triton.model_folders import tensor, write_ensemble, write_preprocess
from tests.triton.overload import FLOOD, SLOW, Flood, flood, refusal
from tests.triton.running_server import RunningServer, wait_for
from tests.triton.served_models import ENCODED, PREPROCESS_TEXT

LIMITS = {**PREPROCESS_TEXT, "threads": 1, "max_queue_cost": 100}
OUTPUTS = [tensor("geometry", "TYPE_FP32", [8]), tensor("status", "TYPE_INT32", [1])]
SMALL = jpegs.photo_jpeg(60, 80, seed=5)
REFUSAL = re.compile(
    r"unavailable: \d+ ms of work wait before this request, and max_queue_cost is 100 ms; "
    r"retry after \d+ ms$"
)


pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer) -> RunningServer:
    one = {"more": "instance_group { count: 1 kind: KIND_CPU }"}
    # All that costs more than 5 ms counts as large, where other programs take the CPUs, too.
    strict, blank = {**LIMITS, "max_queue_cost": 5}, {**LIMITS, "on_error": "blank"}
    models = {"limited": LIMITS, "limited_strict": strict, "limited_blank": blank}
    models["unlimited"] = {**PREPROCESS_TEXT, "threads": 1}
    for name, parameters in models.items():
        options = {"max_batch_size": 16, "parameters": parameters, **one}
        write_preprocess(compiled_server.repository, name, **options)
    write_preprocess(compiled_server.repository, "limited_single", parameters=LIMITS, **one)
    names = {"geometry": "geometry", "status": "status"}
    write_ensemble(
        compiled_server.repository,
        "through",
        inputs=[ENCODED],
        outputs=OUTPUTS,
        steps=[("limited_single", {"encoded": "encoded"}, names)],
    )
    compiled_server.load(*models, "through")
    return compiled_server


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


def test_a_timeout_that_cannot_be_met_is_refused(server, client):
    encoded = {"encoded": strings([SLOW], batched=False)}
    for model in ("limited_single", "through"):
        said = "the request's timeout is 2 ms"
        with pytest.raises(InferenceServerException, match=said) as failure:
            infer(client, model, encoded, timeout=2000)
        assert failure.value.status() == "StatusCode.UNAVAILABLE"
        assert "retry after" not in failure.value.message()
        infer(client, model, encoded, timeout=30_000_000)
    assert counted(server, "refused_total", model="limited_single", reason="deadline") > 0
    infer(client, "unlimited", {"encoded": strings([SLOW])}, timeout=2000)


def test_responses_are_those_of_a_model_without_the_limit(client):
    for encoded in (
        strings([SMALL]),
        strings([SLOW]),
        strings([SMALL, SLOW, jpegs.photo_jpeg(200, 90, seed=2)]),
    ):
        expected = infer(client, "unlimited", {"encoded": encoded})
        for model in ("limited", "limited_strict"):
            response = infer(client, model, {"encoded": encoded})
            assert response.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(response[name], array)


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


# --- models that call a limited one ---------------------------------------------------------------


@pytest.mark.usefixtures("python_models")
@pytest.mark.parametrize("model", ["cascade", "detect_bls"])
def test_a_refusal_is_passed_on_with_its_code_and_hint(server, client, model):
    server.load("detect", "preprocess_rois", "classify", model)
    config = server.config("preprocess")
    for name, value in (("max_queue_cost", "100"), ("threads", "1")):
        config["parameters"][name] = {"string_value": value}

    def failed(reason: str) -> float:
        return server.metric("endcap_bls_failed_total", model="cascade", reason=reason)

    client.load_model("preprocess", config=json.dumps(config))
    try:
        with flood(client, "preprocess"):
            before = [failed("unavailable"), failed("internal")] if model == "cascade" else []
            error = refusal(lambda: infer(client, model, {"encoded": strings([SLOW])}))
        if model == "cascade":
            assert [failed("unavailable"), failed("internal")] == [before[0] + 1, before[1]]
    finally:
        client.load_model("preprocess")
    callee = "model 'detect': in ensemble 'detect', " if model == "cascade" else "model 'preproces"
    assert error.message().startswith(callee)
    assert REFUSAL.match(error.message()[error.message().index("unavailable: ") :])
    assert error.status() == "StatusCode.UNAVAILABLE"
