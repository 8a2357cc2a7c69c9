"""The default pipeline of model_repository/ under `endcap serve`, by `endcap infer` and `load`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cli_runs import endcap
from tests.support.damage import SHIPPED
from tests.support.tolerances import (
    SERVED_BOX_PIXELS,
    SERVED_SCORE,
)
from tests.triton.commands import ENDCAP
from tests.triton.plain_calls import detect_in_python
from tests.triton.running_server import get

SAMPLES = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))


LABELS = (SHIPPED / "detector" / "labels.txt").read_text(encoding="utf-8").split()
INFER_OPTIONS = {
    "http": ["--protocol", "http"],
    "batches": ["--batch", "3"],
    "shared memory": ["--shm", "system"],
}


@dataclass(frozen=True)
class Served:
    """A running `endcap serve`."""

    pid: int
    urls: dict[str, str]  # by protocol

    def run(self, command: str, *arguments: object, exit_code: int = 0) -> Any:
        """Runs an endcap command with --json."""
        protocol = "http" if "http" in arguments else "grpc"
        url = f"{protocol}://{self.urls[protocol]}"
        done = endcap(command, "--url", url, "--json", *arguments)
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The command as people type it, which the shared server is not."""
    options = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--model", "detect"]
    command = [ENDCAP, "serve", str(SHIPPED), *options, "--client-shared-memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls: dict[str, str] = {}
        for line in process.stdout:
            match = re.match(r"(HTTP|gRPC|metrics)\s+\S*?://(\S+)", line)
            if match:
                urls[match[1].lower()] = match[2]
            if line.startswith("models"):
                break
        yield Served(process.pid, urls)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def plain(served: Served) -> Any:
    return served.run("infer", *SAMPLES)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]


def test_the_pipeline_runs_without_python(served: Served) -> None:
    (server,) = children(served.pid)
    assert children(server) == []


def test_infer_equals_the_package(plain: Any) -> None:
    assert [row["image"] for row in plain] == list(map(str, SAMPLES))
    for row, expected in zip(plain, detect_in_python(SAMPLES), strict=True):
        found = row["detections"]
        assert row["status"] == "ok"
        assert len(expected) > 0
        assert [each["class_id"] for each in found] == expected.class_ids.tolist()
        assert [each["label"] for each in found] == [LABELS[i] for i in expected.class_ids]
        scores = np.array([each["score"] for each in found], np.float32)
        boxes = np.array([each["box"] for each in found], np.float32)
        np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=SERVED_SCORE)
        np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)


@pytest.mark.parametrize("pipeline", INFER_OPTIONS)
def test_infer_has_the_same_results_with_all_options(
    served: Served, plain: Any, pipeline: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(SAMPLES[0].read_bytes()[:2000])
    images = [*SAMPLES[:3], bad, *SAMPLES[3:6]]
    *rows, failed = sorted(
        served.run("infer", *images, *INFER_OPTIONS[pipeline], exit_code=1),
        key=lambda row: row["image"] == str(bad),
    )
    assert failed["status"] == "corrupt_image"
    assert rows == plain[:6]


@pytest.mark.parametrize(
    ("protocol", "service", "model", "said"),
    [
        ("http", "grpc", "detect", "this looks like the gRPC port: give grpc://127.0.0.1:"),
        ("http", "metrics", "detect", "or give its address with --url"),
        ("grpc", "http", "detect", "this looks like the HTTP port: give http://127.0.0.1:"),
        ("grpc", "metrics", "detect", "or give its address with --url"),
        ("grpc", "grpc", "preprocess", "does not take encoded images and return detections"),
        ("http", "http", "nosuch", "has no model 'nosuch' that is ready"),
    ],
)
def test_what_cannot_be_requested_is_one_error_message(
    served: Served, protocol: str, service: str, model: str, said: str
) -> None:
    url = f"{protocol}://{served.urls[service].removesuffix('/metrics')}"
    done = endcap("infer", SAMPLES[0], "--url", url, "--model", model)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


# --- endcap load ----------------------------------------------------------------------------------


def served_requests(served: Served) -> float:
    metrics = get(f"http://{served.urls['metrics'].removesuffix('/metrics')}/metrics").decode()
    pattern = r'^nv_inference_request_success{model="detect".*} (\S+)$'
    (count,) = re.findall(pattern, metrics, re.MULTILINE)
    return float(count)


def test_load_agrees_with_itself_and_with_the_servers_metrics(served: Served) -> None:
    before = served_requests(served)
    options = ("--concurrency", "1,3", "--duration", "1.5", "--warmup", "0.3")
    levels = served.run("load", *options)["levels"]
    sent = sum(level["requests"] for level in levels)
    # And those of the warm-up.
    assert sent <= served_requests(served) - before < 2 * sent + 20
    for level in levels:
        latency = level["latency_ms"]
        assert latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"]
        # Little's law: what is in flight is throughput by latency. Requests at the edges of the
        # window, `concurrency` at each, are in one factor only.
        in_flight = level["images_per_s"] * latency["mean"] / 1e3
        edges = 2 * level["concurrency"] / level["requests"]
        assert 0.75 - edges < in_flight / level["concurrency"] < 1 + edges
        whole, *steps = level["server_ms"]
        assert [step["model"] for step in steps] == ["preprocess", "detector", "postprocess"]
        assert abs(whole["requests"] - level["requests"]) <= 2 * level["concurrency"] + 2


def test_load_reports_failures(served: Served, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    options = ("--concurrency", "1", "--duration", "0.3", "--warmup", "0")
    (level,) = served.run("load", tmp_path / "bad.jpg", *options, exit_code=1)["levels"]
    assert set(level["failures"]) == {"corrupt_image"}
    assert (level["requests"], level["latency_ms"]) == (0, {})
