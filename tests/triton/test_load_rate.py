"""`endcap load --rate` on a real server whose model takes a known time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support.cli_runs import endcap
from tests.support.echo_model import write_model
from tests.support.responding_model import CONFIG, MODEL

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
    (late,) = load(url, photo, "--rate", "50", "--duration", "1.5")
    assert late["latency_ms"]["max"] > 10e3 * SLEEP_S
    assert late["requests"] == pytest.approx(75, rel=0.5)


def test_what_finds_no_sender_is_a_failure(url: str, photo: Path) -> None:
    (lost,) = load(url, photo, "--rate", "200", "--duration", "1", exit_code=1)
    assert set(lost["failures"]) == {"not_sent"}
    assert lost["requests"] + lost["failures"]["not_sent"] == pytest.approx(200, rel=0.25)
    # What the server has done in the window is what it can, however late that was.
    assert 0.1 / SLEEP_S < lost["images_per_s"] < 1.1 / SLEEP_S
