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
from tests.support.damage import copy_model
from tests.triton import client_models, served_models, shared_memory_models
from tests.triton.client_layouts import Layout
from tests.triton.running_server import RunningServer, run_server

# The shipped models, but for those that a server without DALI or with other streams cannot have.
COMPILED = (
    *("preprocess", "detector", "postprocess", "detect", "preprocess_frames", "track"),
    *("detect_track", "preprocess_rois", "classifier", "classify_postprocess", "classify"),
    *("cascade", "preprocess_tiles", "postprocess_tiles", "detect_tiled"),
)
IN_PYTHON = ("preprocess_python", "detector_python", "postprocess_python", "detect_bls")


@pytest.fixture(scope="session")
def compiled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server that tests share, without a model at first: they `load` what they need.

    It has the shipped models and those of served_models, the latter also as models of the Python
    backend, with the suffix `_python`; tests add their own. Each process of pytest-xdist has a
    server: what it counts, logs and keeps in memory is that of one test at a time.
    """
    repository = tmp_path_factory.mktemp("shared")
    served_models.write_all(repository, "compiled")
    for model in COMPILED:
        copy_model(model, repository)
    if why_no_python(locate_or_install_server()) is None:
        served_models.write_all(repository, "python", suffix="_python")
        for model in IN_PYTHON:
            copy_model(model, repository)
    caches = locate_or_install_server().executable.parents[1] / "caches"
    options = (f"--cache-directory={caches}", "--cache-config=local,size=4194304")
    with run_server(repository, "--model-control-mode=explicit", *options) as running:
        yield running


@pytest.fixture(scope="session")
def python_models() -> None:
    """Skips where the server runs no models of the Python backend."""
    reason = why_no_python(locate_or_install_server())
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def server(compiled_server: RunningServer) -> RunningServer:
    """The shared server with the compiled models of served_models."""
    compiled_server.load(*served_models.NAMES)
    return compiled_server


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
        running.expect_all()
        yield running


@pytest.fixture(scope="session")
def decoupled_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a decoupled model alone.

    Release 24.10 can end a decoupled response too early, and then itself, where an ordinary model
    was called over a gRPC stream before: see "Requests that end a server" in the documentation.
    """
    repository = tmp_path_factory.mktemp("decoupled")
    client_models.write_parts(repository)
    with run_server(repository, "--disable-auto-complete-config") as running:
        yield running


@pytest.fixture(scope="session")
def client(compiled_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(compiled_server.grpc) as connection:
        yield connection


@pytest.fixture(scope="module")
def served(repository: Path) -> Iterator[RunningServer]:
    """A server with all models of the folder that the module's `repository` writes."""
    with run_server(repository) as server:
        server.expect_all()
        yield server


@pytest.fixture(scope="module")
def connection(served: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(served.grpc) as client:
        yield client


@pytest.fixture
def web_client(compiled_server: RunningServer) -> Iterator[http_client.InferenceServerClient]:
    with http_client.InferenceServerClient(compiled_server.http) as connection:
        yield connection


@pytest.fixture(scope="session")
def pool_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("pools")
    shared_memory_models.write_all(repository)
    with run_server(repository, *shared_memory_models.OPTIONS) as running:
        yield running


@pytest.fixture(params=[Layout("sync", "http"), Layout("async", "grpc")], ids=str)
def pools(request: pytest.FixtureRequest, pool_server: RunningServer) -> Iterator[Any]:
    """Makes pools of a layout; they are closed after the test, and nothing may be left."""
    with shared_memory_models.Pools(request.param, pool_server) as made:
        yield made
    assert made.registered() == set()
    assert not shared_memory_models.own_files()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[client_models.WaitingImage]:
    image = client_models.WaitingImage(tmp_path)
    yield image
    image.end()  # so that the server is idle for the next test
