"""Models that call a preprocess model with max_queue_cost, and what becomes of its refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from endcap.client import DetectionClient
from endcap.client.calls import Call, InputTensor, OutputTensor
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions, parse_address
from endcap.triton.model_config import set_parameter
from tests.support.damage import copy_model
from tests.support.videos import encode
from tests.triton.calls import infer, strings
from tests.triton.overload import SLOW, flood, refusal
from tests.triton.running_server import RunningServer, run_server

PIPELINE = ("preprocess", "detector", "postprocess", "detect")
CLASSIFIERS = ("preprocess_rois", "classifier", "classify_postprocess", "classify")
CALLERS = ("cascade", "detect_bls")
TEXT = re.compile(
    r"(?:model 'detect': in ensemble 'detect', |model 'preprocess': )"
    r"unavailable: \d+ ms of work wait before this request, and max_queue_cost is 100 ms; "
    r"retry after \d+ ms$"
)
FRAMES = np.random.default_rng(3).integers(0, 256, (24, 480, 640, 3), np.uint8)


def _copy(repository: Path, shipped: str, name: str, **parameters: object) -> Path:
    config = copy_model(shipped, repository, name=name) / "config.pbtxt"
    text = config.read_text()
    for key, value in parameters.items():
        text = set_parameter(text, key, str(value))
    config.write_text(text)
    return config


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("callers")
    for model in (*PIPELINE[1:], *CLASSIFIERS, *CALLERS):
        _copy(repository, model, model)
    _copy(repository, "preprocess", "preprocess", max_queue_cost=100, threads=1)
    # What costs more than a millisecond waits for the one before it, or is refused.
    _copy(repository, "preprocess", "preprocess_strict", max_queue_cost=1, threads=1)
    config = _copy(repository, "detect", "detect_strict")
    step = 'model_name: "preprocess"'
    text = config.read_text()
    assert text.count(step) == 1
    config.write_text(text.replace(step, 'model_name: "preprocess_strict"'))
    _copy(repository, "video", "video", model="detect_strict")
    with run_server(repository) as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


def failures(server: RunningServer, reason: str) -> float:
    return server.metric("endcap_bls_failed_total", model="cascade", reason=reason)


@pytest.mark.parametrize("model", CALLERS)
def test_a_refusal_is_passed_on_with_its_code_and_hint(server, client, model):
    with flood(client, "preprocess"):
        error = refusal(lambda: infer(client, model, {"encoded": strings([SLOW])}))
    assert TEXT.match(error.message()), error.message()
    assert error.status() == "StatusCode.UNAVAILABLE"


@pytest.mark.slow
@pytest.mark.parametrize("model", CALLERS)
def test_a_client_waits_as_long_as_the_called_model_asks(server, client, model):
    encoded = InputTensor.of("encoded", strings([SLOW]))
    call = Call(model, [encoded], [OutputTensor("status")])
    address = parse_address(f"grpc://{server.grpc}")
    with (
        flood(client, "preprocess"),
        Connection(address, ConnectionOptions(retries=0)) as once,
        Connection(address, ConnectionOptions(retries=100, timeout_s=60)) as patient,
    ):
        error = refusal(lambda: once.infer(call))
        assert error.status_name == "unavailable"
        assert error.retry_after_s > 0
        assert patient.infer(call).tensors["status"].tolist() == [[0]]


def test_a_cascade_counts_it_as_unavailable(server, client):
    before = {reason: failures(server, reason) for reason in ("unavailable", "internal")}
    with flood(client, "preprocess"):
        refusal(lambda: infer(client, "cascade", {"encoded": strings([SLOW])}))
    assert failures(server, "unavailable") == before["unavailable"] + 1
    assert failures(server, "internal") == before["internal"]


def test_frames_of_a_video_are_repeated(server):
    """Four frames at a time, of which the model takes one and lets one wait."""
    with DetectionClient(server.grpc, model="video") as client:
        results = list(client.video(encode(FRAMES)))
    assert [result.status for result in results] == ["ok"] * len(FRAMES)
    assert [result.frame.index for result in results] == list(range(len(FRAMES)))
    refused = server.metric(
        "endcap_preprocess_refused_total", model="preprocess_strict", reason="queue"
    )
    assert refused > 0
