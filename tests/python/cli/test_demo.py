"""endcap demo: the shipped repository on a real server, and servers that run already."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import PROTOCOLS, assert_error_message, endcap, model_server, write_pictures
from PIL import Image
from videos import times_of

from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.cli.latency import measure
from endcap.client import DetectionClient
from endcap.server.models import choose_models
from endcap.triton.model_folder import read_repository


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with model_server(tmp_path_factory.mktemp("models")) as urls:
        yield urls


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")


def test_make_demo_builds_the_backends_that_the_demo_runs() -> None:
    models = choose_models(read_repository(find_repository(), None), ["detect"])
    listing = (find_repository().parent / "backends" / "CMakeLists.txt").read_text()
    built = re.findall(r"^endcap_add_backend\((\w+) DEMO$", listing, re.MULTILINE)
    ours = {model.backend for model in models if model.backend.startswith("endcap_")}
    assert {"endcap_preprocess", "endcap_postprocess"} <= ours <= set(built)


def test_the_shipped_repository_detects_shapes_and_measures_latency(tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = endcap("demo", "--output", output, "--repeat", "2")
    assert result.exit_code == 0, result.output
    samples = expand_images([str(find_repository() / SAMPLES)])
    for sample in samples:
        assert (output / f"{sample.stem}_detections.jpg").is_file()
        assert sample.name in result.stdout
    assert f"Latency of {2 * len(samples)} requests, one at a time over grpc" in result.stdout
    assert "network and client" in result.stdout
    with Image.open(output / "contact_sheet.jpg") as sheet:
        assert sheet.width == 1600
    assert (output / "server.log").stat().st_size > 0
    assert "112 frames in " in result.stdout
    assert " detections, 6 tracks: " in result.stdout
    assert times_of(output / "shapes_tracked.mp4") == times_of(output / "shapes.mp4")
    times = json.loads((output / "latency.json").read_text())
    assert times["requests"] == 2 * len(samples)
    whole, *steps = times["server_ms"]
    assert [step["model"] for step in steps] == ["preprocess", "detector", "postprocess"]
    for step in steps:
        assert step["requests"] == times["requests"]
        assert 0 < step["queue"] + step["transfer"] + step["compute"] <= step["total"] * 1.001
    assert max(step["total"] for step in steps) < whole["total"]
    # All work is done before the client has its response; the server's own clock may stop later.
    assert sum(step["compute"] for step in steps) < times["client_ms"]["mean"]


def test_a_server_that_runs_already_is_used(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    (pictures / "c.jpg").write_bytes(b"C")
    result = endcap(
        "demo", "--url", f"http://{urls['http']}", "--images", pictures, "--output", output
    )
    assert result.exit_code == 1
    assert result.stderr == (
        f"endcap: 1 of 3 images failed, first {pictures / 'c.jpg'} "
        "(corrupt_image: image 0 is not a JPEG)\n"
    )
    assert "4 detections in 2 images: 2 square, 2 class 7; 1 image failed" in result.stdout
    assert "Latency of 10 requests, one at a time over http" in result.stdout
    assert sorted(path.name for path in output.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg", "contact_sheet.jpg", "latency.json"
    ]  # fmt: skip
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_without_repetitions_there_are_no_times(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    arguments = ["--url", urls["grpc"], "--images", pictures, "--repeat", "0"]
    result = endcap("demo", *arguments, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Latency" not in result.stdout
    assert not (tmp_path / "out" / "latency.json").exists()
    assert (tmp_path / "out" / "contact_sheet.jpg").is_file()


def test_nothing_found_anywhere_is_a_failure(urls: dict[str, str], tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "e.jpg").write_bytes(b"E")
    arguments = ["--url", urls["grpc"], "--images", images, "--output", tmp_path / "out"]
    result = endcap("demo", *arguments)
    assert result.exit_code == 1
    assert "nothing was detected in any of 1 image" in result.stderr


def test_no_server_is_an_error(pictures: Path, tmp_path: Path) -> None:
    result = endcap(
        "demo", "--url", "127.0.0.1:9", "--images", pictures, "--output", tmp_path / "out"
    )
    assert_error_message(result, "no Triton server responds at grpc://127.0.0.1:9")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_times_are_counted_and_summed_up(
    urls: dict[str, str], pictures: Path, protocol: str
) -> None:
    images = [pictures / "a.JPEG", pictures / "b.jpg"]
    with DetectionClient(f"{protocol}://{urls[protocol]}", concurrency=1) as client:
        latency = measure(client, images, 4)
    assert latency is not None
    assert {image: len(times) for image, times in latency.times_ms.items()} == {
        str(image): 4 for image in images
    }
    numbers = latency.summary()
    ordered = [numbers[name] for name in ("min", "median", "p90", "p99", "max")]
    assert ordered[0] > 0
    assert ordered == sorted(ordered)
    assert numbers["mean"] == pytest.approx(sum(latency.all_ms) / 8)
    assert latency.images_per_s == pytest.approx(8 / latency.elapsed_s)
    assert latency.elapsed_s * 1e3 >= sum(latency.all_ms)
    (whole,) = latency.server  # the model is not an ensemble
    assert whole.requests == 8
    # A response is on its way before the server ends its own count of the time.
    assert 0 < whole.queue + whole.compute < min(numbers["mean"], whole.total)


def test_failed_requests_count_separately(urls: dict[str, str], pictures: Path) -> None:
    (pictures / "c.jpg").write_bytes(b"C")
    with DetectionClient(urls["grpc"], concurrency=1) as client:
        latency = measure(client, [pictures / "b.jpg", pictures / "c.jpg"], 2)
        nothing = measure(client, [pictures / "c.jpg"], 2)
    assert latency is not None
    assert list(latency.times_ms) == [str(pictures / "b.jpg")]
    assert [each.status for each in latency.failures] == ["corrupt_image"] * 2
    assert nothing is None


def test_the_page_is_served_until_it_is_interrupted(urls: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endcap", "demo", "--web", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--url", urls["grpc"], "--output", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    (page,) = [word for word in words if word.startswith("http://127.0.0.1:")] or [""]
    assert page, process.communicate()
    with urllib.request.urlopen(page, timeout=20) as response:
        assert b"<html" in response.read().lower()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err == ""
