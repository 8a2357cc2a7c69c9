"""The server that the tests share, and a client for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
# calls and the like; jpegs, tolerances; reference
sys.path[:0] = [str(HERE), str(HERE.parent / "python"), str(HERE.parent)]

import served_models  # noqa: E402
import tritonclient.grpc as grpc_client  # noqa: E402
import tritonclient.http as http_client  # noqa: E402
from model_folders import ROADS  # noqa: E402
from running_server import RunningServer, run_server  # noqa: E402


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marked = metafunc.definition.get_closest_marker("both_roads") is not None
    if marked and "road" in metafunc.fixturenames:
        metafunc.parametrize("road", ROADS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def road(request: pytest.FixtureRequest) -> str:
    """What the server runs: compiled backends, and Python models where a test is for both."""
    return str(getattr(request, "param", "compiled"))


def serve(folder: Path, road: str) -> Iterator[RunningServer]:
    served_models.write_all(folder, road)
    with run_server(folder, "--model-control-mode=explicit", "--load-model=*") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="session")
def compiled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    yield from serve(tmp_path_factory.mktemp("compiled"), "compiled")


@pytest.fixture(scope="session")
def python_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    yield from serve(tmp_path_factory.mktemp("python"), "python")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, road: str) -> Any:
    """A RunningServer with the models of served_models."""
    return request.getfixturevalue(f"{road}_server")


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


@pytest.fixture
def web_client(server: RunningServer) -> Iterator[http_client.InferenceServerClient]:
    with http_client.InferenceServerClient(server.http) as connection:
        yield connection
