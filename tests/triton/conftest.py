"""The server that the tests share, and a client for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# calls and the like; jpegs, tolerances; reference
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parent)]

import cascade_models  # noqa: E402
import served_models  # noqa: E402
import tritonclient.grpc as grpc_client  # noqa: E402
import tritonclient.http as http_client  # noqa: E402
from running_server import RunningServer, run_server  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("repository")
    served_models.write_all(repository)
    options = ("--model-control-mode=explicit", "--load-model=*")
    with run_server(repository, *options) as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


@pytest.fixture
def web_client(server: RunningServer) -> Iterator[http_client.InferenceServerClient]:
    with http_client.InferenceServerClient(server.http) as connection:
        yield connection


@pytest.fixture(scope="session")
def cascade_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("cascades") / "models"
    cascade_models.write_all(repository)
    with run_server(repository, "--model-control-mode=explicit", "--load-model=*") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="session")
def cascades(cascade_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(cascade_server.grpc) as connection:
        yield connection
