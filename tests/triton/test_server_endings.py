"""Servers that end by a fault, and whether the message says by which signal."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.client import ConnectionOptions, DetectionClient
from endcap.server import ServerError, ServerSettings, TritonServer
from tests.support.echo_model import write_echo_model, write_model
from tests.triton.running_server import FREE_PORTS, run_server, wait_for

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLE = REPOSITORY / "detect" / "samples" / "shapes_1000x872.jpg"
TEXT = """
backend: "python"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
TEXT_CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        text = pb_utils.Tensor("y", np.array([[b"text"]], np.object_))
        return [pb_utils.InferenceResponse([text]) for _ in requests]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TritonServer]:
    repository = write_echo_model(tmp_path / "models")
    write_model(repository, "text", TEXT, TEXT_CODE)
    with TritonServer(repository, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


def ended(server: TritonServer) -> str:
    """The message after the server has ended by itself."""

    def message() -> str:
        try:
            server.check_alive()
        except ServerError as error:
            return str(error)
        return ""

    return str(wait_for(message))


def test_brackets_that_are_nested_too_deeply(server: TritonServer) -> None:
    """When a later release responds with an error, the pages can lose it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.ports.http, timeout=30)
    # The connection may break while the body is sent, or after.
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        connection.request("POST", "/v2/models/echo/infer", b"[" * 200_000)
        connection.getresponse()
    message = ended(server)
    assert message.startswith("tritonserver ended with signal SIGSEGV; its last log lines: ")


def test_classes_of_a_bytes_output(server: TritonServer) -> None:
    x = grpc_client.InferInput("x", [1, 1], "FP32")
    x.set_data_from_numpy(np.ones((1, 1), np.float32))
    y = grpc_client.InferRequestedOutput("y", class_count=1)
    with (
        grpc_client.InferenceServerClient(server.grpc_url.removeprefix("grpc://")) as client,
        pytest.raises(InferenceServerException),
    ):
        client.infer("text", [x], outputs=[y])
    message = ended(server)
    assert message.startswith("tritonserver ended with signal SIGFPE; its last log lines: ")


def test_a_region_that_its_client_shortens(tmp_path: Path) -> None:
    """Triton reads there in place. It needs a server that allows clients' shared memory."""
    repository = write_echo_model(tmp_path / "models")
    settings = ServerSettings(ports=FREE_PORTS, client_shared_memory=True)
    with (
        TritonServer(repository, settings) as server,
        grpc_client.InferenceServerClient(server.grpc_url.removeprefix("grpc://")) as client,
        tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="test-endings-") as region,
    ):
        region.truncate(4096)
        client.register_system_shared_memory("region", f"/{Path(region.name).name}", 4096)
        region.truncate(0)
        x = grpc_client.InferInput("x", [1, 1], "FP32")
        x.set_shared_memory("region", 4)
        with pytest.raises(InferenceServerException):
            client.infer("echo", [x])
        message = ended(server)
    assert message.startswith(
        "tritonserver ended with signal SIGBUS (a client's shared-memory region was truncated, or "
        "/dev/shm is full); its last log lines: "
    )


def test_requests_that_a_server_drops_at_its_end_are_unavailable() -> None:
    """HTTP connections hold it until its exit timeout; it then exits with networks at work."""
    statuses: Counter[str] = Counter()
    ended = threading.Event()

    def send(url: str) -> None:
        options = ConnectionOptions(retries=0, timeout_s=20)
        with DetectionClient(url, options=options) as client:
            while not ended.is_set():
                statuses[client.detect([SAMPLE])[0].status] += 1
                time.sleep(0.001)  # for the other threads, once the server refuses at once

    options = ("--model-control-mode=explicit", "--load-model=detect", "--exit-timeout-secs=1")
    with run_server(REPOSITORY, *options) as server:
        urls = [f"http://{server.http}", f"grpc://{server.grpc}"] * 3
        threads = [threading.Thread(target=send, args=(url,)) for url in urls]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: statuses["ok"] > 20)
            os.kill(server.pid, signal.SIGTERM)
            # A zombie has no command line. Once in twenty times 24.10 waits for ever where it stops
            # its gRPC service; who supervises it kills it then.
            try:
                wait_for(lambda: not Path(f"/proc/{server.pid}/cmdline").read_bytes())
            except AssertionError:
                os.kill(server.pid, signal.SIGKILL)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert statuses["unavailable"] > 0
    assert set(statuses) == {"ok", "unavailable"}
