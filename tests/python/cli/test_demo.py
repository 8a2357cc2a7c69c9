"""endcap demo: the shipped repository on a real server, and servers that run already."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.server.models import choose_models
from endcap.triton.model_folder import read_repository
from tests.support.cli_runs import endcap


def test_make_demo_builds_the_backends_that_the_demo_runs() -> None:
    models = choose_models(read_repository(find_repository(), None), ["detect"])
    listing = (find_repository().parent / "backends" / "CMakeLists.txt").read_text()
    built = re.findall(r"^endcap_add_backend\((\w+) DEMO$", listing, re.MULTILINE)
    ours = {model.backend for model in models if model.backend.startswith("endcap_")}
    assert {"endcap_preprocess", "endcap_postprocess"} <= ours <= set(built)


def test_the_shipped_repository_detects_shapes(tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = endcap("demo", "--output", output, columns=200)
    assert result.exit_code == 0, result.output
    samples = expand_images([str(find_repository() / SAMPLES)])
    for sample in samples:
        assert (output / f"{sample.stem}_detections.jpg").is_file()
        assert sample.name in result.stdout
    assert f"{len(samples)} pictures in {output}/" in result.stdout
    assert (output / "server.log").stat().st_size > 0


def test_a_server_that_runs_already_is_used(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    (pictures / "c.jpg").write_bytes(b"C")
    arguments = ["--images", pictures, "--output", output]
    result = endcap("demo", "--url", f"http://{urls['http']}", *arguments)
    assert result.exit_code == 1
    assert result.stderr == (
        f"endcap: 1 of 3 images failed, first {pictures / 'c.jpg'} "
        "(corrupt_image: image 0 is not a JPEG)\n"
    )
    assert "4 detections in 2 images: 2 square, 2 class 7; 1 image failed" in result.stdout
    assert sorted(path.name for path in output.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_nothing_found_anywhere_is_a_failure(urls: dict[str, str], tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "e.jpg").write_bytes(b"E")
    arguments = ["--url", urls["grpc"], "--images", images, "--output", tmp_path / "out"]
    result = endcap("demo", *arguments)
    assert result.exit_code == 1
    assert "nothing was detected in any of 1 image" in result.stderr


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
