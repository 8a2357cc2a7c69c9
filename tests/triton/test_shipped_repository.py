"""model_repository/ as it stands, by the commands that people type."""

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
import onnxruntime
import pytest
from PIL import Image

import endcap
from endcap.client import DetectionClient
from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support.tolerances import (
    SAMPLE_PRECISION,
    SAMPLE_RECALL,
    SERVED_BOX_PIXELS,
    SERVED_SCORE,
)
from tests.triton.commands import ENDCAP

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))
TRUTH = json.loads(
    (REPOSITORY.parent / "tests" / "data" / "sample_objects.json").read_text(encoding="utf-8")
)
LABELS = (REPOSITORY / "detector" / "labels.txt").read_text(encoding="utf-8").split()
POSTPROCESS_CONFIG = (REPOSITORY / "postprocess" / "config.pbtxt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Served:
    """A running `endcap serve`."""

    process: subprocess.Popen[str]
    urls: dict[str, str]  # by protocol


def start_serve() -> Served:
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(
        [ENDCAP, "serve", str(REPOSITORY), *ports], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    urls: dict[str, str] = {}
    for line in process.stdout:
        match = re.match(r"(HTTP|gRPC|metrics)\s+\S*?://(\S+)", line)
        if match:
            urls[match[1].lower()] = match[2]
        if line.startswith("models"):
            return Served(process, urls)
    raise AssertionError(f"endcap serve ended with {process.wait()} before it was ready")


def stop_serve(served: Served, signal_number: int) -> int:
    served.process.send_signal(signal_number)
    with served.process:
        return served.process.wait(30)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    server = start_serve()
    yield server
    assert stop_serve(server, signal.SIGTERM) == 0


def infer(served: Served, protocol: str, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    command = [ENDCAP, "infer", "--url", served.urls[protocol], "--protocol", protocol, "--json"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def served_parameter(name: str) -> str:
    match = re.search(rf'key: "{name}"\s+value {{ string_value: "(.*?)" }}', POSTPROCESS_CONFIG)
    assert match is not None, name
    return match[1]


def detect_in_python(image: bytes) -> endcap.ImageDetections:
    tensors = endcap.Preprocessor("ultralytics")(image)
    session = onnxruntime.InferenceSession(
        str(REPOSITORY / "detector" / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    (head,) = session.run(["head"], {"images": tensors.images})
    names = ("head", "num_classes", "score_threshold")
    postprocessor = endcap.Postprocessor(**{name: served_parameter(name) for name in names})
    detections = postprocessor(head, tensors.geometry, tensors.status)
    assert isinstance(detections, endcap.Detections)
    return detections[0]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_infer_equals_the_python_way(served: Served, protocol: str) -> None:
    code, responses = infer(served, protocol, *map(str, SAMPLES))
    assert code == 0
    assert [response["image"] for response in responses] == [str(path) for path in SAMPLES]
    for path, response in zip(SAMPLES, responses, strict=True):
        expected = detect_in_python(path.read_bytes())
        found = response["detections"]
        assert response["status"] == "ok"
        assert len(expected) > 0, f"nothing was found in {path.name}"
        assert [row["class_id"] for row in found] == expected.class_ids.tolist()
        assert [row["label"] for row in found] == [LABELS[i] for i in expected.class_ids]
        scores = np.array([row["score"] for row in found], np.float32)
        boxes = np.array([row["box"] for row in found], np.float32)
        np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=SERVED_SCORE)
        np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)


def test_the_default_pipeline_runs_without_python() -> None:
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with TritonServer(REPOSITORY, ServerSettings(models=("detect",), ports=ports)) as server:
        tasks = Path(f"/proc/{server.pid}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        assert children == []
        with DetectionClient(server.grpc_url) as client:
            (result,) = client.detect(SAMPLES[:1])
    assert len(result.detections) > 0


def iou(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / (sum(areas) - shared)


def test_most_objects_of_the_samples_are_found_where_they_are(served: Served) -> None:
    _, responses = infer(served, "grpc", *map(str, SAMPLES))
    found, objects, detections = 0, 0, 0
    for path, response in zip(SAMPLES, responses, strict=True):
        rows = response["detections"]
        detections += len(rows)
        for thing in TRUTH[path.name]:
            objects += 1
            found += any(
                row["label"] == thing["label"] and iou(row["box"], thing["box"]) > 0.5
                for row in rows
            )
    assert found >= SAMPLE_RECALL * objects
    assert found >= SAMPLE_PRECISION * detections


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_infer_names_the_bad_image_and_detects_in_the_others(
    served: Served, protocol: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    code, responses = infer(served, protocol, str(SAMPLES[0]), str(bad), str(SAMPLES[1]))
    assert code == 1
    assert [response["status"] for response in responses] == ["ok", "corrupt_image", "ok"]
    assert "the PNG's header (IHDR) is cut short" in responses[1]["error"]


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_lossless_files_of_the_same_pixels_give_the_same_detections(
    served: Served, kind: str, tmp_path: Path
) -> None:
    copy = tmp_path / f"copy.{kind.lower()}"
    pixels = endcap.decode(SAMPLES[0])
    Image.fromarray(pixels).save(copy, kind, lossless=True)
    gif = tmp_path / "other.gif"
    Image.fromarray(pixels).save(gif)
    code, responses = infer(served, "grpc", str(SAMPLES[0]), str(copy), str(gif))
    original, lossless, refused = responses
    assert original["detections"]
    assert lossless["detections"] == original["detections"]
    assert code == 1
    assert refused["status"] == "unsupported"
    assert "a GIF image, which the parameter `formats` does not accept" in refused["error"]


@pytest.mark.parametrize(
    ("protocol", "service", "model", "said"),
    [
        ("http", "grpc", "detect", "this looks like the gRPC port: give grpc://127.0.0.1:"),
        ("http", "metrics", "detect", "is not a Triton server's http service"),
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
    command = [ENDCAP, "infer", str(SAMPLES[0]), "--url", url, "--model", model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_demo_prints_detections_and_writes_pictures(tmp_path: Path) -> None:
    command = [ENDCAP, "demo", "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ detections in \d+ images", done.stdout)
    pictures = list((tmp_path / "out").glob("*_detections.jpg"))
    assert len(pictures) == len(SAMPLES)
