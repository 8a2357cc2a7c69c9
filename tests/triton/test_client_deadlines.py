"""The deadline of a client, as the server gets it and as it refuses by it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from endcap.client.errors import RequestError
from endcap.client.options import Address
from tests.support import jpegs
from tests.triton.calls import strings
from tests.triton.connection_calls import infer, server_address
from tests.triton.model_folders import ON_CPU, tensor, write_ensemble, write_model, write_preprocess
from tests.triton.overload import SLOW, flood
from tests.triton.running_server import RunningServer, run_server

_X = [tensor("x", "TYPE_INT32", [1])]
_TOLD = [tensor("told", "TYPE_INT64", [1])]
# The request's timeout, in microseconds.
_TELL = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        told = np.full(x.shape, request.timeout(), np.int64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("told", told)])
"""
_SEQUENCES = 'sequence_batching { control_input [ { name: "START" control [ { kind: %s } ] } ] }'
_START = "CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ]"
PARAMETERS = {"preset": "ultralytics", "size": "96,128", "threads": 1}
TIMEOUT_S = 40.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("deadlines")
    tells = {"backend": "python", "inputs": _X, "outputs": _TOLD}
    files = {"1/model.py": _TELL}
    write_model(repository, "tells", more=ON_CPU, files=files, **tells)
    sequences = f"{_SEQUENCES % _START}\n{ON_CPU}"
    write_model(repository, "steps", more=sequences, files=files, max_batch_size=1, **tells)
    write_ensemble(
        repository,
        "through",
        inputs=_X,
        outputs=_TOLD,
        steps=[("tells", {"x": "x"}, {"told": "told"})],
    )
    for name, cost in (("limited", 10000), ("crowded", 100)):
        parameters = {**PARAMETERS, "max_queue_cost": cost}
        write_preprocess(repository, name, max_batch_size=16, parameters=parameters, more=ON_CPU)
    with run_server(repository) as running:
        assert {model["state"] for model in running.index().values()} == {"READY"}
        yield running


@pytest.fixture(params=["grpc", "http"])
def address(request: pytest.FixtureRequest, server: RunningServer) -> Address:
    return server_address(server, request.param)


def decode(address: Address, model: str, *files: bytes, **options: Any) -> Any:
    return infer(address, model, {"encoded": strings(list(files))}, **options)


@pytest.fixture(scope="module")
def large() -> bytes:
    """A picture of which 16 take half a second or more."""
    picture = np.tile(jpegs.photo(500, 500, seed=3), (8, 8, 1))
    return jpegs.encode(picture, quality=30, progressive=True)


def told(address: Address, model: str = "tells", **options: Any) -> int:
    x = np.zeros((1, 1) if model == "steps" else (1,), np.int32)
    (value,) = infer(address, model, {"x": x}, **options).as_numpy("told").flat
    return int(value)


def test_a_request_has_what_is_left_of_its_deadline(address: Address) -> None:
    for model in ("tells", "through"):
        assert 0.9 * TIMEOUT_S <= told(address, model, timeout_s=TIMEOUT_S) / 1e6 <= TIMEOUT_S
    assert 0.9 * 7 <= told(address, timeout_s=7) / 1e6 <= 7


def test_without_send_timeout_no_timeout_is_sent(address: Address) -> None:
    assert told(address, send_timeout=False) == 0


def test_frames_of_sequences_have_none(address: Address) -> None:
    step = {"sequence_id": 5, "sequence_start": True, "sequence_end": True}
    assert told(address, "steps", more=step) == 0


def test_what_would_be_too_late_is_refused_at_once(
    address: Address, server: RunningServer, large: bytes
) -> None:
    def refused() -> float:
        return server.metric("endcap_preprocess_refused_total", model="limited", reason="deadline")

    late = [large] * 16
    before = refused()
    with pytest.raises(RequestError) as failure:
        decode(address, "limited", *late, timeout_s=0.2, send_timeout=False)
    assert failure.value.status_name == "timeout"
    assert refused() == before
    decode(address, "limited", *late)  # the model is warm
    # The client waits longer than the request's own timeout: 15 MB take their time to arrive.
    with pytest.raises(RequestError, match="the request's timeout is 200 ms") as failure:
        decode(address, "limited", *late, more={"timeout": 200_000})
    assert failure.value.status_name == "unavailable"
    assert not failure.value.transient
    assert refused() == before + 1


def test_retries_end_with_the_deadline(server: RunningServer) -> None:
    address = server_address(server, "grpc")
    with grpc_client.InferenceServerClient(server.grpc) as other, flood(other, "crowded"):
        for timeout_s in (0.05, 0.3, 1.0):
            start = time.monotonic()
            with contextlib.suppress(RequestError):
                decode(address, "crowded", SLOW, timeout_s=timeout_s, retries=100)
            assert time.monotonic() - start < timeout_s + 5
        result = decode(address, "crowded", SLOW, timeout_s=60, retries=100)
        assert result.as_numpy("status").tolist() == [[0]]
