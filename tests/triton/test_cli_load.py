"""endcap load and the options of endcap infer, on the shipped ensemble."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endcap.cli.files import SAMPLES
from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support.cli_runs import endcap
from tests.triton.running_server import get

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLE_FOLDER = REPOSITORY / SAMPLES
INFER_OPTIONS = {
    "http": ["--protocol", "http"],
    "batches": ["--batch", "3"],
    "shared memory": ["--shm", "system"],
    "stream": ["--stream"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    settings = ServerSettings(models=("detect",), ports=ports, client_shared_memory=True)
    with TritonServer(REPOSITORY, settings) as running:
        yield running


def run(server: TritonServer, command: str, *arguments: str, exit_code: int = 0) -> Any:
    url = server.http_url if "http" in arguments else server.grpc_url
    done = endcap(command, "--url", url, "--json", *arguments)
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def plain(server: TritonServer) -> Any:
    return run(server, "infer", str(SAMPLE_FOLDER))


@pytest.mark.parametrize("pipeline", INFER_OPTIONS)
def test_infer_has_the_same_results_with_all_options(
    server: TritonServer, plain: Any, pipeline: str
) -> None:
    options = INFER_OPTIONS[pipeline]
    assert run(server, "infer", str(SAMPLE_FOLDER), *options) == plain
    assert sum(len(row["detections"]) for row in plain) > len(plain)


@pytest.mark.parametrize("pipeline", ["batches", "stream"])
def test_a_bad_image_is_an_error_with_all_options(
    server: TritonServer, plain: Any, pipeline: str, tmp_path: Path
) -> None:
    good = sorted(SAMPLE_FOLDER.glob("*.jpg"))[:2]
    (tmp_path / "bad.jpg").write_bytes(good[0].read_bytes()[:2000])
    images = [str(good[0]), str(tmp_path / "bad.jpg"), str(good[1])]
    rows = run(server, "infer", *images, *INFER_OPTIONS[pipeline], exit_code=1)
    assert [row["status"] for row in rows] == ["ok", "corrupt_image", "ok"]
    known = {row["image"]: row for row in plain}
    assert [rows[0], rows[2]] == [known[str(image)] for image in good]


def served_requests(server: TritonServer, model: str) -> float:
    """Read the server's metric of successful requests."""
    assert server.metrics_url is not None
    metrics = get(server.metrics_url).decode()
    (count,) = re.findall(
        rf'^nv_inference_request_success{{model="{model}".*}} (\S+)$', metrics, re.M
    )
    return float(count)


def test_load_agrees_with_itself_and_with_the_servers_metrics(server: TritonServer) -> None:
    before = served_requests(server, "detect")
    report = run(
        server, "load", "--concurrency", "1,3", "--duration", "1.5", "--warmup", "0.3",
    )  # fmt: skip
    served = served_requests(server, "detect") - before
    sent = sum(level["requests"] for level in report["levels"])
    assert sent <= served < 2 * sent + 20  # and those of the warm-up
    for level in report["levels"]:
        latency = level["latency_ms"]
        assert latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"]
        # Little's law: what is in flight is throughput by latency. Requests at the edges of the
        # window, `concurrency` at each, are in one factor only.
        in_flight = level["images_per_s"] * latency["mean"] / 1e3
        edges = 2 * level["concurrency"] / level["requests"]
        assert 0.75 - edges < in_flight / level["concurrency"] < 1 + edges
        whole, *steps = level["server_ms"]
        assert [step["model"] for step in steps] == ["preprocess", "detector", "postprocess"]
        assert whole["total"] < latency["mean"] * 1.2 + 5
        assert abs(whole["requests"] - level["requests"]) <= 2 * level["concurrency"] + 2


def test_load_reports_failures(server: TritonServer, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    (level,) = run(
        server, "load", str(tmp_path / "bad.jpg"), "--concurrency", "1", "--duration", "0.3",
        "--warmup", "0", exit_code=1,
    )["levels"]  # fmt: skip
    assert set(level["failures"]) == {"corrupt_image"}
    assert (level["requests"], level["latency_ms"]) == (0, {})
