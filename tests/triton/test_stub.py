"""The stub in a model's folder: serves the model, or reports one error message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.environment.stub import install
from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer
from tests.triton.running_server import RunningServer, run_server, wait_for
from tests.triton.stub_models import (
    ECHO,
    RAISES_AT_LOAD,
    RUNNING,
    TOUCHY,
    installed,
    make_environment,
    send_request,
    write_model,
)

FREE = ServerPorts(http=0, grpc=0, metrics=0)
REFUSED = {
    "numpy_2": ["NumPy 2.", "install 'numpy<2'"],
    "other_python": [f"has Python {RUNNING}", "is for Python 3.10", "endcap stub install"],
    "other_release": ["another build", "endcap stub install"],
}


@pytest.fixture(scope="session")
def numpy_2(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("numpy_2")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(folder), "numpy>=2,<2.3"], check=True)
    return sorted(folder.glob("numpy*"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, numpy_2: list[Path]) -> Path:
    root = tmp_path_factory.mktemp("stub")
    models = root / "models"
    with_numpy_1 = make_environment(root / "numpy_1", *installed("numpy", "numpy-*", "numpy.libs"))
    write_model(models, "plain", ECHO)
    folder = write_model(models, "in_environment", ECHO, environment=with_numpy_1)
    (folder / "triton_python_backend_stub.real").chmod(0o644)  # as after a copy without modes
    write_model(models, "raises", RAISES_AT_LOAD)
    write_model(models, "touchy", TOUCHY)
    write_model(
        models, "numpy_2", ECHO, environment=make_environment(root / "environment_2", *numpy_2)
    )
    write_model(models, "other_python", ECHO, stub="3.10")
    settings = write_model(models, "other_release", ECHO) / "endcap-stub.json"
    settings.write_text('{"release": "tritonserver 2.42.0", "server_bytes": 1}')
    return models


@pytest.fixture(scope="module")
def stub_server(models: Path) -> Iterator[RunningServer]:
    options = ("--model-control-mode=explicit", "--load-model=*", "--allow-metrics=false")
    with run_server(models, *options) as server:
        yield server


@pytest.fixture(scope="module")
def stub_client(stub_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(stub_server.grpc) as client:
        yield client


@pytest.mark.parametrize("model", ["plain", "in_environment"])
def test_a_model_that_fits_is_served(stub_client, models, model):
    assert send_request(stub_client, model, 2.5) == 2.5
    assert not (models / model / "endcap-stub.log").exists()


@pytest.mark.parametrize("model", sorted(REFUSED))
def test_the_error_message_is_the_same_everywhere(stub_server, models, model):
    entry = stub_server.index()[model]
    assert entry["state"] == "UNAVAILABLE"
    for text in REFUSED[model]:
        assert text in entry["reason"]
    (logged,) = (models / model / "endcap-stub.log").read_text().splitlines()
    _, _, message = logged.partition(" ")
    assert message in entry["reason"]
    assert stub_server.log_lines(f"endcap stub: model '{model}': {message}")


def test_what_initialize_raises_is_the_reason(stub_server):
    assert "the weights are of another network" in stub_server.index()["raises"]["reason"]


def test_one_request_fails_alone(stub_client):
    with pytest.raises(InferenceServerException, match="-3 is negative"):
        send_request(stub_client, "touchy", -3)
    assert send_request(stub_client, "touchy", 4) == 4


def test_a_model_whose_process_dies_comes_back_with_unload_and_load(stub_client):
    with pytest.raises(InferenceServerException, match="is not healthy"):
        send_request(stub_client, "touchy", 13)
    assert send_request(stub_client, "plain", 1) == 1
    stub_client.unload_model("touchy")
    stub_client.load_model("touchy")
    assert send_request(stub_client, "touchy", 4) == 4


def test_a_refused_model_is_served_once_it_fits(stub_server, stub_client, models):
    model = models / "mended"
    write_model(models, "mended", ECHO)
    (model / "endcap-stub.json").write_text('{"server_bytes": 1}')
    with pytest.raises(InferenceServerException, match="another build"):
        stub_client.load_model("mended")
    assert (model / "endcap-stub.log").exists()
    install(model, python_version=RUNNING)
    stub_client.load_model("mended")
    wait_for(lambda: stub_server.index()["mended"]["state"] == "READY")
    assert send_request(stub_client, "mended", 3) == 3
    assert not (model / "endcap-stub.log").exists()


def test_a_start_fails_with_the_message(tmp_path):
    folder = write_model(tmp_path / "models", "echo", ECHO)
    (folder / "endcap-stub.json").write_text('{"release": 1}')
    with (
        pytest.raises(ServerError, match=r"model 'echo': \S+ is not a JSON object .*; ") as info,
        TritonServer(tmp_path / "models", ServerSettings(ports=FREE)),
    ):
        pass
    assert "\n" not in str(info.value)
    assert "At:" not in str(info.value)


def test_a_stub_that_only_ends_does_not_hold_up_a_start(tmp_path):
    folder = write_model(tmp_path / "models", "echo", ECHO)
    stub = folder / "triton_python_backend_stub"
    stub.write_text("#!/bin/sh\n[ $# = 0 ] || echo \"endcap stub: model 'echo': no\" >&2\nexit 1\n")
    with (
        pytest.raises(ServerError, match=r"model 'echo': no"),
        TritonServer(tmp_path / "models", ServerSettings(ports=FREE)),
    ):
        pass
