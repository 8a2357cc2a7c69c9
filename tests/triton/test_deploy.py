"""The deployment files on a real server and a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc_client
import yaml
from tritonclient.utils import InferenceServerException

from endcap.client import DetectionClient
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.backends import compose_backend_directory, find_onnxruntime
from endcap.server.locate import locate_or_install_server
from endcap.server.plan import server_environment
from endcap.server.settings import PortReservation
from endcap.triton.model_config import set_parameter
from tests.support.deploy_files import DEPLOY, command_on
from tests.support.prometheus_server import Prometheus, run_prometheus
from tests.triton.calls import infer, strings
from tests.triton.running_server import FREE_PORTS, get, wait_for

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))
# A rate needs two; several show that the rules go on recording.
_SCRAPES = 8
# Metrics that a server without a GPU does not have.
_OF_GPU = re.compile(r"\bnv_gpu_\w+")
_COMPARISON = re.compile(r"(.+) (?:>|<|==) [\d.]+", re.DOTALL)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped models, whose preprocess refuses what it cannot process within its timeout."""
    folder = tmp_path_factory.mktemp("limited") / "models"
    for name in ("detect", "preprocess", "detector", "postprocess"):
        shutil.copytree(REPOSITORY / name, folder / name)
    config = folder / "preprocess" / "config.pbtxt"
    config.write_text(set_parameter(config.read_text(), "max_queue_cost", "60000"))
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    settings = ServerSettings(ports=FREE_PORTS, models=("detect",))
    with TritonServer(repository, settings) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(
    server: TritonServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """Prometheus beside a server that has had some seconds of load.

    In ten images one is bad, and one more request has a timeout that is too short.
    """
    ended = threading.Event()
    target = f"127.0.0.1:{server.ports.metrics}"
    with run_prometheus(DEPLOY, target, tmp_path_factory.mktemp("prometheus")) as running:
        load = threading.Thread(target=_send_images, args=(server.grpc_url, ended))
        load.start()
        try:
            recorded = 'count_over_time(endcap_queue_seconds_per_request{job=""}[1m])'
            wait_for(lambda: max(running.values(recorded), default=0) >= _SCRAPES, timeout_s=60)
            yield running
        finally:
            ended.set()
            load.join()


def test_the_server_is_up(prometheus: Prometheus) -> None:
    assert prometheus.values('up{job="endcap"}') == [1]


def test_every_rule_gives_data(prometheus: Prometheus) -> None:
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
    models = ("detect", "detector", "postprocess", "preprocess")
    for model in models:
        (rate,) = prometheus.values(f'endcap:requests:rate1m{{model="{model}"}}')
        assert rate > 0
    (corrupt,) = prometheus.values(
        'endcap:failed_images:rate1m{stage="preprocess",reason="corrupt_image"}'
    )
    (images,) = prometheus.values('endcap:images:rate1m{stage="preprocess"}')
    assert 0 < corrupt < images
    (ratio,) = prometheus.values('endcap:rejected_image_ratio:rate5m{reason="corrupt_image"}')
    assert ratio == pytest.approx(0.1, abs=0.08)
    (decode,) = prometheus.values("endcap:decode_seconds_per_image:rate1m")
    assert 0 < decode < 1
    (found,) = prometheus.values("endcap:detections_per_image:rate1m")
    assert 1 < found < 20
    (longest,) = prometheus.values("endcap_queue_seconds_per_request")
    queues = prometheus.values("endcap:queue_seconds_per_request:rate1m")
    assert len(queues) == len(models)
    assert 0 < longest < 1
    assert max(queues) == pytest.approx(longest, rel=0.5)


def test_refusals_are_those_of_the_load(prometheus: Prometheus) -> None:
    rates = {
        reason: prometheus.values(f'endcap:refused_requests:rate1m{{reason="{reason}"}}')
        for reason in ("deadline", "queue", "expired", "memory")
    }
    (refused,) = rates.pop("deadline")
    assert refused > 0
    assert list(rates.values()) == [[0]] * len(rates)
    (ratio,) = prometheus.values("endcap:refused_request_ratio:rate1m")
    assert ratio == pytest.approx(1 / 11, abs=0.03)
    (highest,) = prometheus.values("endcap_refused_request_ratio")
    assert highest == pytest.approx(ratio, rel=0.5)
    alerts = [
        alert
        for alert in prometheus.get("alerts")["alerts"]
        if alert["labels"]["alertname"] == "EndcapRequestsRefused"
    ]
    assert [(alert["labels"]["model"], alert["labels"]["reason"]) for alert in alerts] == [
        ("preprocess", "deadline")
    ]


def test_every_panel_gives_data(prometheus: Prometheus) -> None:
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


def test_the_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    metric = "nv_inference_request_success"
    models = prometheus.get("label/model/values", **{"match[]": metric})
    assert set(models) == {"detect", "detector", "postprocess", "preprocess"}
    assert len(prometheus.get("label/instance/values", **{"match[]": metric})) == 1


def test_the_memory_of_a_pod_is_enough(prometheus: Prometheus, server: TritonServer) -> None:
    """After the load above; what a container counts is less than the peak of resident memory."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "cpu" / "deployment.yaml").read_text())
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    requested = container["resources"]["requests"]["memory"]
    assert int(peak) < int(requested.removesuffix("Gi")) * 1024**2


def test_the_cpu_image_runs_this_command(repository: Path) -> None:
    ports = PortReservation("127.0.0.1", FREE_PORTS).ports
    process = subprocess.Popen(
        [sys.executable, "-m", *command_on("cpu", repository, ports)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_until_ready(process, ports)
        _assert_detects(f"127.0.0.1:{ports.grpc}")
    finally:
        output = _stop(process)
    assert process.returncode == 0, output


def test_the_gpu_image_runs_this_command(repository: Path) -> None:
    """On this machine's server, which is older, with its folders in place of the container's."""
    installation = locate_or_install_server()
    ports = PortReservation("127.0.0.1", FREE_PORTS).ports
    command = command_on("gpu", repository, ports)
    library = find_onnxruntime(installation)
    named = [index for index, each in enumerate(command) if "onnxruntime_library=" in each]
    assert len(named) == 1
    command[named[0]] = f"--backend-config=endcap_onnx,onnxruntime_library={library}"
    with tempfile.TemporaryDirectory(prefix="endcap-test-") as folder:
        scratch = Path(folder)
        backends = scratch / "backends"
        backends.mkdir()
        compose_backend_directory(backends, installation)
        process = subprocess.Popen(
            [str(installation.executable), *command[1:], f"--backend-directory={backends}"],
            env=server_environment(installation, scratch),
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            _wait_until_ready(process, ports)
            _assert_detects(f"127.0.0.1:{ports.grpc}")
            with pytest.raises(OSError, match="403"):
                get(f"http://127.0.0.1:{ports.http}/v2/repository/index", b"{}")
        finally:
            started = time.monotonic()
            output = _stop(process)
    assert process.returncode == 0, output
    assert time.monotonic() - started < 30, "nothing is in flight"


def _stop(process: subprocess.Popen[str]) -> str:
    """End the process as a container's runtime does, and return what it printed."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def _wait_until_ready(process: subprocess.Popen[str], ports: ServerPorts) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, process.communicate()[0]
        try:
            get(f"http://127.0.0.1:{ports.http}/v2/health/ready")
        except OSError:
            return False
        return True

    wait_for(is_ready, timeout_s=120)


def _assert_detects(address: str) -> None:
    with DetectionClient(address) as client:
        (result,) = client.detect([SAMPLES[0]])
    assert result.status == "ok"
    assert result.detections


def _send_images(url: str, ended: threading.Event) -> None:
    images: list[Any] = [*[path.read_bytes() for path in SAMPLES[:9]], b"no image"]
    assert len(images) == 10
    address = url.removeprefix("grpc://")
    with (
        DetectionClient(address, concurrency=4) as client,
        grpc_client.InferenceServerClient(address) as other,
    ):
        while not ended.is_set():
            client.detect(images)
            with pytest.raises(InferenceServerException, match="the request's timeout is 1 ms"):
                infer(other, "preprocess", {"encoded": strings(images[:1])}, timeout=1)
