"""The deployment files on real servers, a real Prometheus and a real HAProxy.

Their own servers are started by the commands of the images; how they end is a subject.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc_client
import yaml
from tritonclient.utils import InferenceServerException

from endcap.client import DetectionClient, ImageResult
from endcap.client.options import ConnectionOptions
from endcap.server.backends import compose_backend_directory, find_onnxruntime
from endcap.server.locate import locate_or_install_server
from endcap.server.plan import server_environment
from endcap.server.settings import PortReservation
from endcap.triton.model_config import set_parameter
from tests.support.damage import SHIPPED, copy_model
from tests.support.deploy_files import DEPLOY, command_on
from tests.support.prometheus_server import Prometheus, run_prometheus
from tests.triton.calls import infer, strings
from tests.triton.running_server import FREE_PORTS, get, rested, wait_for

SAMPLES = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))[:9]
POD = yaml.safe_load((DEPLOY / "kubernetes" / "cpu" / "deployment.yaml").read_text())
POD = POD["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
# A pod's server until it is killed.
MAX_END_S = (
    POD["terminationGracePeriodSeconds"] - CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
)
# A rate needs two; several show that the rules go on recording.
SCRAPES = 8
# Metrics that a server without a GPU does not have.
_OF_GPU = re.compile(r"\bnv_gpu_\w+")
_COMPARISON = re.compile(r"(.+) (?:>|<|==) [\d.]+", re.DOTALL)


class Server:
    """A server that an image's command runs, on ports that it keeps."""

    def __init__(self, kind: str, repository: Path, log: Path) -> None:
        self._reservation = PortReservation("127.0.0.1", FREE_PORTS)
        self.ports = self._reservation.ports
        self.command = command_on(kind, repository, self.ports)
        self.environment = dict(os.environ)
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it is ready, its metrics included, which start last."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=log
            )
        wait_for(self._is_ready, timeout_s=120)
        self._reservation.close()

    def end(self) -> None:
        """Sends SIGTERM, as a container's runtime does; the server must end well, and in time."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(MAX_END_S) == 0, self._log.read_text()

    def metrics(self) -> str:
        return get(f"http://127.0.0.1:{self.ports.metrics}/metrics").decode()

    def served(self) -> int:
        """Requests that `detect` has served well since the start."""
        pattern = r'^nv_inference_request_success\{model="detect",.*\} (\d+)'
        (count,) = re.findall(pattern, self.metrics(), re.MULTILINE)
        return int(count)

    def detect(self) -> list[ImageResult]:
        with DetectionClient(f"127.0.0.1:{self.ports.grpc}") as client:
            return list(client.detect(SAMPLES[:4]))

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()
        with contextlib.suppress(OSError):
            get(f"http://127.0.0.1:{self.ports.http}/v2/health/ready")
            return bool(self.metrics())
        return False


@contextlib.contextmanager
def run_cpu_image(repository: Path, log: Path) -> Iterator[Server]:
    server = Server("cpu", repository, log)
    server.command = [sys.executable, "-m", *server.command]
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped models, whose preprocess refuses what it cannot process within its timeout."""
    folder = tmp_path_factory.mktemp("limited") / "models"
    for name in ("detect", "preprocess", "detector", "postprocess"):
        copy_model(name, folder)
    config = folder / "preprocess" / "config.pbtxt"
    config.write_text(set_parameter(config.read_text(), "max_queue_cost", "60000"))
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with run_cpu_image(repository, repository.with_name("cpu.log")) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus next to a server that has had some seconds of load.

    In ten images one is bad, and one more request has a timeout that is too short.
    """
    ended = threading.Event()
    target = f"127.0.0.1:{server.ports.metrics}"
    with run_prometheus(DEPLOY, target, tmp_path_factory.mktemp("prometheus")) as running:
        load = threading.Thread(target=_send_images, args=(f"127.0.0.1:{server.ports.grpc}", ended))
        load.start()
        try:
            recorded = 'count_over_time(endcap_queue_seconds_per_request{job=""}[1m])'
            wait_for(lambda: max(running.values(recorded), default=0) >= SCRAPES, timeout_s=60)
            yield running
        finally:
            ended.set()
            load.join()


def _send_images(address: str, ended: threading.Event) -> None:
    images: list[Any] = [*[path.read_bytes() for path in SAMPLES], b"no image"]
    with (
        DetectionClient(address, concurrency=4) as client,
        grpc_client.InferenceServerClient(address) as other,
    ):
        while not ended.wait(0.2):
            client.detect(images)
            with pytest.raises(InferenceServerException, match="the request's timeout is 1 ms"):
                infer(other, "preprocess", {"encoded": strings(images[:1])}, timeout=1)


def test_every_rule_gives_data(prometheus: Prometheus) -> None:
    """tests/python/server/test_deploy_monitoring.py has what follows from given series."""
    assert prometheus.values('up{job="endcap"}') == [1]
    rules = prometheus.rules()
    assert len(rules) > 30
    without_data = set()
    for rule in rules:
        assert rule["health"] == "ok", rule
        expression = rule["query"]
        if rule["type"] == "alerting":
            compared = _COMPARISON.fullmatch(expression)
            assert compared is not None, f"{rule['name']} compares with no number"
            expression = compared[1]
        if not prometheus.values(expression):
            assert _OF_GPU.search(expression), f"{rule['name']}: no data for {expression}"
            without_data.add(rule["name"])
    assert without_data == {"EndcapGpuMemoryFull", "EndcapGpuSaturated"}


def test_recorded_values_are_those_of_the_load(prometheus: Prometheus) -> None:
    (ratio,) = prometheus.values('endcap:rejected_image_ratio:rate5m{reason="corrupt_image"}')
    assert ratio == pytest.approx(0.1, abs=0.08)
    (ratio,) = prometheus.values("endcap:refused_request_ratio:rate1m")
    assert ratio == pytest.approx(1 / 11, abs=0.03)
    firing = [
        (alert["labels"]["model"], alert["labels"]["reason"])
        for alert in prometheus.get("alerts")["alerts"]
        if alert["labels"]["alertname"] == "EndcapRequestsRefused"
    ]
    assert firing == [("preprocess", "deadline")]


def test_every_panel_and_variable_of_the_dashboard_has_data(prometheus: Prometheus) -> None:
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    without_data = set()
    for panel in panels:
        for target in panel.get("targets", []):
            expression = re.sub(r"\$(instance|model)\b", ".*", target["expr"])
            assert "$" not in expression
            if not prometheus.values(expression):
                assert _OF_GPU.search(expression), f"{panel['title']}: no data for {expression}"
                without_data.add(panel["title"])
    assert without_data == {"GPU", "GPU memory", "GPU power"}
    metric = {"match[]": "nv_inference_request_success"}
    models = prometheus.get("label/model/values", **metric)
    assert set(models) == {"detect", "detector", "postprocess", "preprocess"}
    assert len(prometheus.get("label/instance/values", **metric)) == 1


def test_the_memory_of_a_pod_is_enough(prometheus: Prometheus, server: Server) -> None:
    """After the load above; what a container counts is less than the peak of resident memory."""
    assert server.process is not None
    task = Path(f"/proc/{server.process.pid}/task/{server.process.pid}")
    peaks = [
        int(re.findall(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)[0])
        for pid in (task / "children").read_text().split()
    ]
    requested = CONTAINER["resources"]["requests"]["memory"]
    assert 0 < sum(peaks) < int(requested.removesuffix("Gi")) * 1024**2


def test_the_gpu_image_runs_this_command(repository: Path, tmp_path: Path) -> None:
    """On this machine's server, which is older, with its folders in place of the container's."""
    installation = locate_or_install_server()
    server = Server("gpu", repository, tmp_path / "gpu.log")
    (named,) = (i for i, each in enumerate(server.command) if "onnxruntime_library=" in each)
    library = f"onnxruntime_library={find_onnxruntime(installation)}"
    server.command[named] = f"--backend-config=endcap_onnx,{library}"
    backends = tmp_path / "backends"
    backends.mkdir()
    compose_backend_directory(backends, installation)
    server.command[0] = str(installation.executable)
    server.command.append(f"--backend-directory={backends}")
    server.environment = server_environment(installation, tmp_path)
    try:
        server.start()
        assert all(result.ok and result.detections for result in server.detect())
        with pytest.raises(OSError, match="403"):
            get(f"http://127.0.0.1:{server.ports.http}/v2/repository/index", b"{}")
    finally:
        server.end()


# --- a rolling restart behind HAProxy -------------------------------------------------------------


class HaProxy:
    """Its runtime interface, at the Unix socket `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def command(self, text: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self._path))
            connection.sendall(f"{text}\n".encode())
            received = b""
            while part := connection.recv(1 << 16):
                received += part
        return received.decode()

    def set_state(self, server: str, state: str) -> None:
        """server: such as http/a; state: ready or drain."""
        assert self.command(f"set server {server} state {state}").strip() == ""

    def statistics(self, server: str) -> dict[str, str]:
        """HAProxy's columns of one server, such as http/a: status, scur, ..."""
        rows = csv.DictReader(self.command("show stat").removeprefix("# ").splitlines())
        (found,) = [row for row in rows if f"{row['pxname']}/{row['svname']}" == server]
        return found

    def wait_for(self, server: str, **columns: str) -> None:
        wait_for(lambda: columns.items() <= self.statistics(server).items(), timeout_s=30)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[list[Server]]:
    folder = tmp_path_factory.mktemp("servers")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(run_cpu_image(repository, folder / each)) for each in "ab"]


@pytest.fixture
def balanced(pair: list[Server], tmp_path: Path) -> Iterator[tuple[HaProxy, list[str]]]:
    """HAProxy with the shipped configuration before both servers, and its addresses."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    program = shutil.which("haproxy", path=path)
    assert program is not None, "install haproxy: scripts/system_packages.sh test"
    reservation = PortReservation("127.0.0.1", FREE_PORTS)
    # The path of a Unix socket has 107 characters at most.
    control = Path(os.path.relpath(tmp_path / "proxy.sock"))
    variables = {"PROXY_SOCKET": str(control)}
    for service in ("http", "grpc"):
        variables[f"PROXY_{service.upper()}"] = f"127.0.0.1:{getattr(reservation.ports, service)}"
        for name, server in zip("AB", pair, strict=True):
            port = getattr(server.ports, service)
            variables[f"SERVER_{name}_{service.upper()}"] = f"127.0.0.1:{port}"
    reservation.close()
    command = [program, "-db", "-f", str(DEPLOY / "haproxy.cfg")]
    with subprocess.Popen(command, env={**os.environ, **variables}) as process:
        try:
            proxy = HaProxy(control)
            wait_for(control.exists)
            for server in ("http/a", "http/b", "grpc/a", "grpc/b"):
                proxy.wait_for(server, status="UP")
            yield proxy, [f"http://{variables['PROXY_HTTP']}", f"grpc://{variables['PROXY_GRPC']}"]
        finally:
            process.terminate()


class Load:
    """Clients of addresses, each in a thread, which send images all the time, without retries."""

    def __init__(self, urls: list[str]) -> None:
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
        """Waits until each client has this number of further responses."""
        wanted = [len(each) + images for each in self._responses]
        wait_for(
            lambda: all(len(e) >= w for e, w in zip(self._responses, wanted, strict=True)),
            timeout_s=60,
        )

    def results(self) -> list[ImageResult]:
        return [each for responses in self._responses for each in responses]

    def _send(self, url: str, responses: list[ImageResult]) -> None:
        options = ConnectionOptions(retries=0)
        with DetectionClient(url, concurrency=1, options=options) as client:
            while not self._ended.is_set():
                responses += client.detect(SAMPLES[:4])


@pytest.mark.slow
def test_no_request_fails_where_servers_are_drained_and_restarted(
    pair: list[Server], balanced: tuple[HaProxy, list[str]]
) -> None:
    proxy, urls = balanced
    expected = {each.image: each.to_dict() for each in pair[0].detect()}
    with Load(urls * 2) as load:
        load.wait_for_more(20)
        for name, server in zip("ab", pair, strict=True):
            assert server.served() > 10
            proxy.set_state(f"http/{name}", "drain")
            for service in ("http", "grpc"):
                proxy.wait_for(f"{service}/{name}", status="DRAIN", scur="0")
            before = rested(server.served)
            load.wait_for_more(8)
            assert server.served() == before, "a drained server had a request"
            server.end()
            load.wait_for_more(8)
            server.start()
            assert server.served() == 0
            proxy.set_state(f"http/{name}", "ready")
            for service in ("http", "grpc"):
                proxy.wait_for(f"{service}/{name}", status="UP")
            load.wait_for_more(20)
            assert server.served() > 10
    assert all(each.to_dict() == expected[each.image] for each in load.results())
