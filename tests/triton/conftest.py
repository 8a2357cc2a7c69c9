"""The server that the tests share, and a client for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from endcap.server.locate import locate_or_install_server
from endcap.server.models import why_no_python
from tests.triton import (
    cascade_models,
    client_models,
    detecting_models,
    served_models,
    shared_memory_models,
)
from tests.triton.model_folders import VARIANTS
from tests.triton.running_server import RunningServer, run_server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marked = metafunc.definition.get_closest_marker("both_variants") is not None
    if marked and "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", VARIANTS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def variant(request: pytest.FixtureRequest) -> str:
    """What the server runs: compiled backends, and Python models where a test is for both."""
    return str(getattr(request, "param", "compiled"))


def serve(folder: Path, variant: str) -> Iterator[RunningServer]:
    served_models.write_all(folder, variant)
    with run_server(folder, "--model-control-mode=explicit", "--load-model=*") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="session")
def compiled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    yield from serve(tmp_path_factory.mktemp("compiled"), "compiled")


@pytest.fixture(scope="session")
def python_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    reason = why_no_python(locate_or_install_server())
    if reason is not None:
        pytest.skip(reason)
    yield from serve(tmp_path_factory.mktemp("python"), "python")


@pytest.fixture(scope="session")
def client_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the models of client_models, which see the headers that begin with x-."""
    repository = tmp_path_factory.mktemp("clients")
    client_models.write_all(repository)
    options = (
        "--disable-auto-complete-config",
        "--http-header-forward-pattern=x-.*",
        "--grpc-header-forward-pattern=x-.*",
    )
    with run_server(repository, *options) as running:
        yield running


@pytest.fixture(scope="session")
def decoupled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with decoupled models alone.

    Release 24.10 can end a decoupled response too early, and then itself, where an ordinary model
    was called over a gRPC stream before: see "Requests that end a server" in the documentation.
    """
    repository = tmp_path_factory.mktemp("decoupled")
    client_models.write_decoupled(repository)
    detecting_models.write_decoupled(repository)
    with run_server(repository, "--disable-auto-complete-config") as running:
        yield running


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, variant: str) -> Any:
    """A RunningServer with the models of served_models."""
    return request.getfixturevalue(f"{variant}_server")


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


@pytest.fixture
def web_client(server: RunningServer) -> Iterator[http_client.InferenceServerClient]:
    with http_client.InferenceServerClient(server.http) as connection:
        yield connection


@pytest.fixture(scope="session")
def pool_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("pools")
    shared_memory_models.write_all(repository)
    with run_server(repository, *shared_memory_models.OPTIONS) as running:
        yield running


@pytest.fixture(params=["sync-http", "async-grpc"])
def pools(request: pytest.FixtureRequest, pool_server: RunningServer) -> Iterator[Any]:
    """Makes pools of either kind; they are closed after the test, and nothing may be left."""
    kind, protocol = request.param.split("-")
    with shared_memory_models.Pools(kind, getattr(pool_server, protocol), protocol) as made:
        yield made
    assert made.registered() == {}
    assert not shared_memory_models.own_files()


@pytest.fixture(scope="session")
def cascade_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("cascades") / "models"
    cascade_models.write_all(repository)
    # Completing configs, which are whole here, would start each Python model once more.
    options = ("--disable-auto-complete-config", "--model-control-mode=explicit", "--load-model=*")
    with run_server(repository, *options) as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="session")
def cascades(cascade_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(cascade_server.grpc) as connection:
        yield connection


@pytest.fixture(scope="session")
def detecting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A RunningServer with the models of detecting_models."""
    repository = tmp_path_factory.mktemp("clients")
    detecting_models.write_all(repository)
    with run_server(repository, "--disable-auto-complete-config") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running
