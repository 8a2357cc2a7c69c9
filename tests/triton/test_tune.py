"""endcap tune and `endcap load --rate` on a real server, whose model takes a known time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import endcap
from echo_model import write_model
from PIL import Image
from responding_model import CONFIG, MODEL

from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.tune.measurement import Bench, Traffic
from endcap.tools.tune.settings import CLIENT, SHARED_MEMORY, Change, read_pipeline
from endcap.tools.tune.windows import Window

SLEEP_S = 0.04
SLEEPING = MODEL.replace("    kind = encoded[:1]\n", f"    kind = b''\n    time.sleep({SLEEP_S})\n")
ONE_INSTANCE = CONFIG.replace(
    "instance_group [ { count: 2 kind: KIND_CPU } ]",
    "# one\ninstance_group [ { kind: KIND_CPU } ]",
)
DEADLINE_S = 60.0
SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert SLEEPING != MODEL
    assert ONE_INSTANCE != CONFIG
    return write_model(tmp_path_factory.mktemp("models"), "detect", ONE_INSTANCE, SLEEPING)


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("photos") / "photo.jpg"
    Image.new("RGB", (64, 48)).save(file)
    return file


@pytest.fixture(scope="module")
def url(repository: Path) -> Iterator[str]:
    with TritonServer(
        repository, ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    ) as server:
        yield server.grpc_url


def load(url: str, photo: Path, *options: str, exit_code: int = 0) -> list[Any]:
    done = endcap("load", photo, "--url", url, "--json", "--warmup", "0.3", *options)
    assert done.exit_code == exit_code, done.output
    return list(json.loads(done.stdout)["levels"])


def test_latencies_count_from_the_scheduled_arrival(url: str, photo: Path) -> None:
    (slow,) = load(url, photo, "--rate", "10", "--duration", "1")
    assert slow["rate"] == 10
    assert slow["failures"] == {}
    assert slow["latency_ms"]["min"] >= 1e3 * SLEEP_S
    # Twice what the model can do: a closed loop would only see its sender wait for one response.
    (closed,) = load(url, photo, "--concurrency", "1", "--duration", "1")
    (late,) = load(url, photo, "--rate", "50", "--duration", "1.5")
    assert closed["latency_ms"]["p99"] < 5e3 * SLEEP_S
    assert late["latency_ms"]["max"] > 10e3 * SLEEP_S
    assert late["requests"] == pytest.approx(75, rel=0.5)


def test_what_finds_no_sender_is_a_failure(url: str, photo: Path) -> None:
    (lost,) = load(url, photo, "--rate", "200", "--duration", "1", exit_code=1)
    assert set(lost["failures"]) == {"not_sent"}
    assert lost["requests"] + lost["failures"]["not_sent"] == pytest.approx(200, rel=0.25)
    # What the server has done in the window is what it can, however late that was.
    assert lost["images_per_s"] == pytest.approx(lost["ended_images"], rel=0.1)
    assert 0.1 / SLEEP_S < lost["images_per_s"] < 1.1 / SLEEP_S


def tune(repository: Path, photo: Path, output: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "endcap", "tune", repository, photo, "--output", output]
    # One instance can do 25 images/s and cannot keep up, two can, whatever else the machine does.
    traffic = ["--rate", "35", "--p99-ms", "2000", "--no-shm"]
    time_limits = ["--budget-minutes", "0.8", "--wait-minutes", "0"]
    return [*map(str, command), *traffic, *time_limits, *options]


def test_shared_memory_of_clients_is_measured() -> None:
    image = (SHIPPED / "detect" / "samples" / "shapes_640x427.jpg").read_bytes()
    traffic = Traffic([image], ["image"], 1, 30.0)
    bench = Bench(read_pipeline(SHIPPED, "detect"), traffic, limit_ms=2000.0)
    shared = (Change(CLIENT, SHARED_MEMORY, "system"),)
    with bench.serve(shared) as served:
        measured = served.measure(Window(shared, 5.0, 1.0, seed=1))
    assert measured.problem is None
    assert measured.latencies_ms


@pytest.mark.slow
def test_a_model_that_takes_seconds_is_measured(photo: Path, tmp_path: Path) -> None:
    """The closed loop of a second sees no request end."""
    slow = SLEEPING.replace(f"time.sleep({SLEEP_S})", "time.sleep(1.5)")
    repository = write_model(tmp_path / "models", "detect", ONE_INSTANCE, slow)
    bench = Bench(
        read_pipeline(repository, "detect"), Traffic([photo.read_bytes()], ["photo"], 1, 30.0), 1e4
    )
    with bench.serve(()) as served:
        assert 0.3 < served.saturation < 1.0


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder but for what Python compiles where it imports a model."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.slow
def test_a_second_instance_is_found_and_written(
    repository: Path, photo: Path, tmp_path: Path
) -> None:
    """Interrupted, resumed, and then written from what was measured."""
    before = files(repository)
    state = tmp_path / "out" / "tune.json"
    environment = {**os.environ, "COLUMNS": "200"}
    first = subprocess.Popen(
        tune(repository, photo, tmp_path / "out"), stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip
    deadline = time.monotonic() + DEADLINE_S
    while not state.exists():
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline, "nothing was measured"
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=DEADLINE_S)
    assert first.returncode == 130
    assert "the same command goes on from" in said
    measured = json.loads(state.read_text())["measurements"]

    second = subprocess.run(
        tune(repository, photo, tmp_path / "out"), capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    assert second.returncode == 0, second.stderr
    assert f"{len(measured)} measurement" in second.stderr
    assert json.loads(state.read_text())["measurements"][: len(measured)] == measured
    assert "Recommended: detect instances 2" in second.stdout
    assert "+instance_group" in second.stdout
    assert "Nothing was written" in second.stdout
    assert files(repository) == before
    assert "as it is" in (tmp_path / "out" / "tune.html").read_text()

    kept = state.read_bytes()
    third = subprocess.run(
        tune(repository, photo, tmp_path / "out", "--write"), capture_output=True, text=True,
        check=False, env=environment,
    )  # fmt: skip
    assert third.returncode == 0, third.stderr
    assert state.read_bytes() == kept
    config = repository / "detect" / "config.pbtxt"
    assert f"Written: {config}" in third.stdout
    assert "count: 2" in config.read_text()
    assert "# one" in config.read_text()
    assert {name for name, text in files(repository).items() if before[name] != text} == {
        str(config)
    }
