"""`detect_tiled`, and what `endcap init --tile` writes: images in tiles inside the server."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client import DetectionClient
from tests.triton.calls import infer, strings
from tests.triton.commands import endcap as run_command
from tests.triton.running_server import RunningServer

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
NETWORK = SHIPPED / "detector" / "1" / "model.onnx"
SMALL = (SHIPPED / "detect/samples/shapes_320x240.jpg").read_bytes()  # one tile
LARGE = (SHIPPED / "detect/samples/shapes_1000x872.jpg").read_bytes()  # four, and the whole image
CUT = LARGE[: len(LARGE) // 2]
POSTPROCESS = {"head": "yolov8", "num_classes": 6, "score_threshold": 0.4, "merge": "nms"}


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer) -> RunningServer:
    compiled_server.load(
        *("preprocess_tiles", "postprocess_tiles", "detector", "detect_tiled"),
    )
    return compiled_server


def test_mixed_requests_equal_those_alone(server: RunningServer) -> None:
    files = [LARGE if n % 4 == 1 else SMALL for n in range(32)]
    files[17] = CUT
    with DetectionClient(server.grpc, model="detect_tiled") as client:
        alone = {file: client.detect_one(file) for file in (SMALL, LARGE)}
    assert {len(each.detections) > 3 for each in alone.values()} == {True}
    with DetectionClient(server.grpc, model="detect_tiled", concurrency=8, timeout_s=120) as client:
        results = client.detect(files)
    for n, (file, result) in enumerate(zip(files, results, strict=True)):
        if n == 17:
            assert result.status == "corrupt_image"
        else:
            assert result.detections == alone[file].detections


def test_results_are_those_of_the_package(server: RunningServer, client) -> None:
    tiles = endcap.preprocess(LARGE, tile=640)
    encoded = {"encoded": strings([LARGE], batched=False)}
    sent = infer(client, "preprocess_tiles", encoded)
    np.testing.assert_array_equal(sent["images"], tiles.images)
    np.testing.assert_array_equal(sent["geometry"], tiles.geometry)
    assert sent["status"].tolist() == [0] * 5
    head = infer(client, "detector", {"images": tiles.images})["head"]
    inputs = {"head": head, "geometry": tiles.geometry, "status": tiles.status}
    merged = infer(client, "postprocess_tiles", inputs)
    expected = endcap.Postprocessor(**POSTPROCESS)(head, tiles.geometry)
    np.testing.assert_array_equal(merged["detection_boxes"], expected.boxes[0])
    np.testing.assert_array_equal(merged["detection_indices"], expected.indices[0])
    assert merged["num_detections"] == expected.num_detections[0] > 3
    blank = infer(client, "postprocess_tiles", {**inputs, "status": np.int32([0, 0, 2, 0, 0])})
    assert (blank["num_detections"].tolist(), blank["status"].tolist()) == ([0], [2])


def test_a_bad_image_fails_its_request(server: RunningServer, client) -> None:
    for file, said in (
        (b"no picture", "corrupt_image: the data is not an image"),
        (CUT, "corrupt"),
    ):
        with pytest.raises(InferenceServerException, match=said):
            infer(client, "detect_tiled", {"encoded": strings([file], batched=False)})


def test_init_writes_such_a_repository(server: RunningServer, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    options = ("--tile", "640", "--max-batch", "5", "--set", "score_threshold=0.4")
    done = run_command("init", NETWORK, "--output", folder, "--name", "sliced", *options)
    assert done.returncode == 0, done.stderr
    checked = run_command("validate", folder, "--strict")
    assert "0 errors, 0 warnings" in checked.stdout, checked.stdout
    models = [each.name for each in folder.iterdir() if each.is_dir()]
    for name in models:
        shutil.copytree(folder / name, server.repository / name)
    server.load(*sorted(models, key=lambda name: name == "sliced"))
    with DetectionClient(server.grpc, model="detect_tiled") as client:
        expected = client.detect([LARGE, SMALL])
    with DetectionClient(server.grpc, model="sliced") as client:
        results = client.detect([LARGE, SMALL])
        large = client.detect_one((SHIPPED / "detect/samples/shapes_1920x1080.jpg").read_bytes())
    for one, other in zip(results, expected, strict=True):
        assert one.detections == other.detections
    assert "with 9 tiles; max_rois allows 5: give a greater tile" in large.error


def test_refused_configs(server: RunningServer) -> None:
    for model, old, new, said in (
        (
            "preprocess_tiles",
            "max_batch_size: 0",
            "max_batch_size: 4",
            "tile or merge: images have",
        ),
        ("postprocess_tiles", "max_batch_size: 0", "max_batch_size: 4", "tile or merge: images ha"),
        ("postprocess_tiles", '"yolov8"', '"yolov8_obb"', "give merge_metric=iou"),
    ):
        config = server.repository / model / "config.pbtxt"
        text = config.read_text()
        name = "refused_" + model.replace("process", new[:3].strip('"'))
        folder = server.repository / name
        shutil.copytree(server.repository / model, folder)
        changed = text.replace(old, new).replace(f'"{model}"', f'"{name}"')
        (folder / "config.pbtxt").write_text(changed)
        assert said in server.refusal(name)
