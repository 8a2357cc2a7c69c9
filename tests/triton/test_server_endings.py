"""Servers that end by a fault, whose message says by which signal, and faults that they survive.

Each test has its own server, which it ends or whose processes and memory it takes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.client import ConnectionOptions, DetectionClient
from endcap.server import ServerError, ServerSettings, TritonServer
from tests.support import jpegs
from tests.support.damage import SHIPPED
from tests.triton.calls import infer, strings
from tests.triton.model_folders import write_postprocess, write_preprocess
from tests.triton.running_server import FREE_PORTS, run_server, wait_for

SAMPLE = SHIPPED / "detect" / "samples" / "shapes_1000x872.jpg"
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TritonServer]:
    parameters = {"head": "classification", "num_classes": 5}
    write_postprocess(tmp_path, "classes", max_batch_size=4, parameters=parameters)
    settings = ServerSettings(ports=FREE_PORTS, client_shared_memory=True)
    with TritonServer(tmp_path, settings) as running:
        yield running


@pytest.fixture
def client(server: TritonServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc_url.removeprefix("grpc://")) as connection:
        yield connection


def ending(server: TritonServer) -> str:
    """The message after the server has ended by itself."""

    def message() -> str:
        try:
            server.check_alive()
        except ServerError as error:
            return str(error)
        return ""

    return str(wait_for(message))


def test_a_region_that_its_client_shortens(server: TritonServer, client) -> None:
    """Triton reads there in place. It needs a server that allows clients' shared memory."""
    with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY, prefix="test-endings-") as region:
        region.truncate(4096)
        client.register_system_shared_memory("region", f"/{Path(region.name).name}", 4096)
        region.truncate(0)
        logits = grpc_client.InferInput("logits", [1, 5], "FP32")
        logits.set_shared_memory("region", 20)
        with pytest.raises(InferenceServerException):
            client.infer("classes", [logits])
        message = ending(server)
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
    with run_server(SHIPPED, *options) as server:
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


# --- faults around models of the Python backend ---------------------------------------------------

_INSIDE = "ENDCAP_TEST_HAS_ITS_OWN_SHM"


@pytest.mark.slow
@pytest.mark.usefixtures("python_models")
def test_a_killed_stub_and_a_full_shared_memory_fail_no_other_model(tmp_path: Path) -> None:
    """In a process with a separate /dev/shm of 256 MB, which the test may fill."""
    if not os.environ.get(_INSIDE):
        mount = f'mount -t tmpfs -o size=256m tmpfs {SHARED_MEMORY} && exec "$@"'
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--mount", *root, "sh", "-c", mount, "sh"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no separate /dev/shm can be mounted here")
        name = "test_a_killed_stub_and_a_full_shared_memory_fail_no_other_model"
        test = [sys.executable, "-m", "pytest", "-q", f"{__file__}::{name}"]
        environment = {**os.environ, _INSIDE: "1"}
        done = subprocess.run(
            [*command, *test], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return
    for variant in ("compiled", "python"):
        write_preprocess(tmp_path, variant, variant=variant, parameters={"size": 640})
    encoded = {"encoded": strings([jpegs.photo_jpeg(40, 50)], batched=False)}
    options = ("--model-control-mode=explicit", "--load-model=*")
    with (
        run_server(tmp_path, *options) as server,
        grpc_client.InferenceServerClient(server.grpc) as client,
    ):
        expected = infer(client, "compiled", encoded)["images"].tobytes()

        def works(model: str) -> bool:
            with contextlib.suppress(InferenceServerException):
                assert infer(client, model, encoded)["images"].tobytes() == expected
                return True
            return False

        for _ in range(3):
            assert works("python")
            with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY) as file:
                _fill(file.fileno())
                results = [works("python") for _ in range(50)]
                assert all(works("compiled") for _ in range(50))
            assert works("python"), results
            (stub,) = _stubs(server.pid)
            os.kill(stub, signal.SIGKILL)
            assert not works("python")
            assert all(works("compiled") for _ in range(50))
            client.unload_model("python")
            client.load_model("python")


def _fill(file: int) -> None:
    """Lets an open file take all bytes that are free in /dev/shm, which others use meanwhile."""
    while free := shutil.disk_usage(SHARED_MEMORY).free:
        try:
            os.posix_fallocate(file, 0, os.fstat(file).st_size + free)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _stubs(server: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{server}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"python_backend_stub" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found
