"""Two servers behind HAProxy that are restarted one after the other, under load."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from endcap.client import DetectionClient, ImageResult
from endcap.client.options import ConnectionOptions
from endcap.server.settings import PortReservation
from tests.support.deploy_files import DEPLOY, command_on
from tests.triton.running_server import FREE_PORTS, get, rested, wait_for

_READY_WITHIN_S = 30
_STATE_WITHIN_S = 30


def haproxy_program() -> str:
    """The program, which Debian has in a folder that is not on every user's PATH."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    program = shutil.which("haproxy", path=path)
    assert program is not None, "install haproxy: scripts/system_packages.sh test"
    return program


class HaProxy:
    """Its runtime interface, at the Unix socket `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def command(self, text: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.path))
            connection.sendall(f"{text}\n".encode())
            received = b""
            while part := connection.recv(1 << 16):
                received += part
        return received.decode()

    def set_state(self, server: str, state: str) -> None:
        """server: such as http/a; state: ready, drain or maint."""
        assert self.command(f"set server {server} state {state}").strip() == ""

    def statistics(self, server: str) -> dict[str, str]:
        """HAProxy's columns of one server, such as http/a: status, scur, ..."""
        rows = csv.DictReader(self.command("show stat").removeprefix("# ").splitlines())
        (found,) = [row for row in rows if f"{row['pxname']}/{row['svname']}" == server]
        return found

    def status(self, server: str) -> str:
        return self.statistics(server)["status"]

    def wait_for_status(self, server: str, status: str) -> None:
        deadline = time.monotonic() + _STATE_WITHIN_S
        while self.status(server) != status:
            assert time.monotonic() < deadline, f"{server} is {self.status(server)}, not {status}"
            time.sleep(0.05)

    def wait_until_idle(self, server: str) -> None:
        """Until no request is at the server any more."""
        deadline = time.monotonic() + _STATE_WITHIN_S
        while self.statistics(server)["scur"] != "0":
            assert time.monotonic() < deadline, f"{server} still has requests"
            time.sleep(0.05)


@contextlib.contextmanager
def run_haproxy(
    configuration: Path, folder: Path, variables: Mapping[str, str]
) -> Iterator[HaProxy]:
    """Runs it in the foreground until the end of the block.

    Args:
        configuration: Its file, whose stats socket is PROXY_SOCKET.
        folder: For its log.
        variables: Of its environment.
    """
    # The path of a Unix socket has 107 characters at most.
    path = Path(os.path.relpath(folder / "proxy.sock"))
    log = folder / "haproxy.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [haproxy_program(), "-db", "-f", str(configuration)],
            env={**os.environ, **variables, "PROXY_SOCKET": str(path)},
            stdout=file,
            stderr=file,
        )
    try:
        proxy = HaProxy(path)
        deadline = time.monotonic() + _READY_WITHIN_S
        while not _responds(proxy):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


def _responds(proxy: HaProxy) -> bool:
    with contextlib.suppress(OSError):
        return bool(proxy.command("show info"))
    return False


REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))[:4]
# A pod's server until it is killed.
_POD = yaml.safe_load((DEPLOY / "kubernetes" / "cpu" / "deployment.yaml").read_text())["spec"][
    "template"
]["spec"]
_PRE_STOP_S = _POD["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
LONGEST_END_S = _POD["terminationGracePeriodSeconds"] - _PRE_STOP_S
# The server waits for HTTP connections until the timeout of `endcap serve`, 25 s.
HTTP_ENDS_AFTER_S = 20
NO_RETRIES = ConnectionOptions(retries=0)
USUAL = ConnectionOptions()
IN_PROXY = ("http/a", "http/b", "grpc/a", "grpc/b")
# What a Service of Kubernetes does: connections are balanced, not requests.
SERVICE = """
global
    stats socket "unix@${PROXY_SOCKET}" mode 600 level admin
defaults
    mode tcp
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    balance roundrobin
listen http
    bind "${PROXY_HTTP}"
    server a "${SERVER_A_HTTP}"
    server b "${SERVER_B_HTTP}"
listen grpc
    bind "${PROXY_GRPC}"
    server a "${SERVER_A_GRPC}"
    server b "${SERVER_B_GRPC}"
"""


class Server:
    """A server that the CPU image's command runs, on ports that it keeps."""

    def __init__(self, log: Path) -> None:
        self._reservation = PortReservation("127.0.0.1", FREE_PORTS)
        self.ports = self._reservation.ports
        self._log = log
        self._command = [
            *(sys.executable, "-m"),
            *command_on("cpu", REPOSITORY, self.ports),
            "--model=detect",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it is ready, its metrics included, which start last."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_for(self._is_ready, timeout_s=120)
        self._reservation.close()

    def end(self) -> float:
        """Sends SIGTERM; returns how many seconds it took to end, well."""
        assert self._process is not None
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(LONGEST_END_S) == 0, self._log.read_text()
        return time.monotonic() - started

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end()

    def served(self) -> int:
        """Requests that `detect` has served well since the start."""
        text = get(f"http://127.0.0.1:{self.ports.metrics}/metrics").decode()
        (count,) = re.findall(
            r'^nv_inference_request_success\{model="detect",.*\} (\d+)', text, re.M
        )
        return int(count)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with contextlib.suppress(OSError):
            get(f"http://127.0.0.1:{self.ports.http}/v2/health/ready")
            get(f"http://127.0.0.1:{self.ports.metrics}/metrics")
            return True
        return False


class Load:
    """Clients of addresses, each in a thread, which send images all the time."""

    def __init__(
        self, urls: Sequence[str], options: ConnectionOptions, expected: list[ImageResult]
    ) -> None:
        self._options = options
        self._expected = expected
        self._ended = threading.Event()
        self._responses: list[list[ImageResult]] = [[] for _ in urls]
        self._threads = [
            threading.Thread(target=self._send, args=each)
            for each in zip(urls, self._responses, strict=True)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, images: int) -> None:
        """Waits until each client has so many more responses."""
        before = [len(each) for each in self._responses]
        wait_for(
            lambda: all(
                len(now) >= then + images for now, then in zip(self._responses, before, strict=True)
            ),
            timeout_s=60,
        )

    def failures(self) -> list[ImageResult]:
        return [each for each in self._all() if not each.ok]

    def differences(self) -> list[ImageResult]:
        """Good responses that are not the expected ones."""
        expected = {each.image: each for each in self._expected}
        return [each for each in self._all() if each.ok and not _same(each, expected[each.image])]

    def _all(self) -> list[ImageResult]:
        return [each for responses in self._responses for each in responses]

    def _send(self, url: str, responses: list[ImageResult]) -> None:
        with DetectionClient(url, concurrency=1, options=self._options) as client:
            while not self._ended.is_set():
                responses += client.detect(SAMPLES)


def _same(one: ImageResult, other: ImageResult) -> bool:
    return all(
        np.array_equal(getattr(one.detections, name), getattr(other.detections, name))
        for name in ("boxes", "scores", "class_ids")
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    folder = tmp_path_factory.mktemp("servers")
    servers = [Server(folder / f"{name}.log") for name in "ab"]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
            server.start()
        yield servers


@pytest.fixture(scope="module")
def expected(pair: list[Server]) -> list[ImageResult]:
    """The detections of both servers, without a proxy."""
    results = []
    for server in pair:
        with DetectionClient(f"127.0.0.1:{server.ports.grpc}") as client:
            results.append(list(client.detect(SAMPLES)))
    for one, other in zip(*results, strict=True):
        assert one.ok
        assert one.detections
        assert _same(one, other)
    return results[0]


@contextlib.contextmanager
def proxied(
    configuration: Path, pair: list[Server], folder: Path
) -> Iterator[tuple[HaProxy, str, str]]:
    """HAProxy before both servers, and its addresses for HTTP and gRPC."""
    reservation = PortReservation("127.0.0.1", FREE_PORTS)
    http, grpc = (f"127.0.0.1:{p}" for p in (reservation.ports.http, reservation.ports.grpc))
    variables = {"PROXY_HTTP": http, "PROXY_GRPC": grpc}
    for name, server in zip("AB", pair, strict=True):
        variables[f"SERVER_{name}_HTTP"] = f"127.0.0.1:{server.ports.http}"
        variables[f"SERVER_{name}_GRPC"] = f"127.0.0.1:{server.ports.grpc}"
    with run_haproxy(configuration, folder, variables) as proxy:
        reservation.close()
        yield proxy, f"http://{http}", f"grpc://{grpc}"


@pytest.fixture
def balanced(pair: list[Server], tmp_path: Path) -> Iterator[tuple[HaProxy, str, str]]:
    """HAProxy with the shipped configuration."""
    with proxied(DEPLOY / "haproxy.cfg", pair, tmp_path) as opened:
        for server in IN_PROXY:
            opened[0].wait_for_status(server, "UP")
        yield opened


@pytest.mark.slow
def test_no_request_fails_where_servers_are_drained_and_restarted(
    pair: list[Server], balanced: tuple[HaProxy, str, str], expected: list[ImageResult]
) -> None:
    """Without retries by the clients."""
    proxy, http, grpc = balanced
    with Load([http, grpc, http, grpc], NO_RETRIES, expected) as load:
        load.wait_for_more(20)
        assert all(server.served() > 10 for server in pair)
        for name, server in zip("ab", pair, strict=True):
            proxy.set_state(f"http/{name}", "drain")
            for service in ("http", "grpc"):
                assert proxy.status(f"{service}/{name}") == "DRAIN"
                proxy.wait_until_idle(f"{service}/{name}")
            before = rested(server.served)
            load.wait_for_more(8)
            assert server.served() == before, "a drained server had a request"
            server.end()
            load.wait_for_more(8)
            server.start()
            assert server.served() == 0
            proxy.set_state(f"http/{name}", "ready")
            forwarded = {each: _forwarded(proxy, each) for each in IN_PROXY}
            for service in ("http", "grpc"):
                proxy.wait_for_status(f"{service}/{name}", "UP")
            load.wait_for_more(20)
            for each in IN_PROXY:
                assert _forwarded(proxy, each) > forwarded[each], each
            assert server.served() > 10
    assert load.failures() == []
    assert load.differences() == []


def _forwarded(proxy: HaProxy, server: str) -> int:
    return int(proxy.statistics(server)["stot"])


@pytest.mark.slow
def test_without_a_drain_the_clients_retries_are_needed(
    pair: list[Server], balanced: tuple[HaProxy, str, str], expected: list[ImageResult]
) -> None:
    """A server that ends refuses requests over gRPC until the health check has seen it."""
    proxy, _, grpc = balanced
    first, _ = pair
    with Load([grpc] * 2, NO_RETRIES, expected) as once, Load([grpc] * 2, USUAL, expected) as usual:
        for load in (once, usual):
            load.wait_for_more(20)
        first.end()
        proxy.wait_for_status("grpc/a", "DOWN")
        first.start()
        proxy.wait_for_status("grpc/a", "UP")
        for load in (once, usual):
            load.wait_for_more(20)
    assert {each.status for each in once.failures()} == {"unavailable"}
    assert usual.failures() == []
    assert once.differences() == usual.differences() == []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_connections_stay_with_a_server_until_it_ends(
    pair: list[Server], expected: list[ImageResult], tmp_path: Path, protocol: str
) -> None:
    """As in a pod behind a Service of Kubernetes, whose clients have connections to it."""
    (tmp_path / "service.cfg").write_text(SERVICE)
    first, _ = pair
    with proxied(tmp_path / "service.cfg", pair, tmp_path) as (proxy, http, grpc):
        url = {"http": http, "grpc": grpc}[protocol]
        with Load([url] * 4, USUAL, expected) as load:
            load.wait_for_more(20)
            proxy.set_state(f"{protocol}/a", "drain")
            before = first.served()
            load.wait_for_more(20)
            assert first.served() > before + 20, "its clients are still there"
            seconds = first.end()
            load.wait_for_more(20)
            assert proxy.statistics(f"{protocol}/a")["scur"] == "0", "they are at the other one"
            first.start()
    if protocol == "http":
        assert seconds > HTTP_ENDS_AFTER_S, "it ended before its clients"
    else:
        assert seconds < HTTP_ENDS_AFTER_S
    assert load.failures() == []
    assert load.differences() == []
