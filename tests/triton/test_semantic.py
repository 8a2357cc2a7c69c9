"""Semantic segmentation on a real server: the backend, repositories of `endcap init`, the client.

It has its own server: the shared one runs every model in Python as well, which do not read this
head.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpc_client
from PIL import Image
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client import DetectionClient, Task
from tests.reference import class_maps, masks
from tests.support import family_networks as families
from tests.triton.calls import infer, strings
from tests.triton.commands import endcap as run_command
from tests.triton.init_cases import PICTURES, letterboxed, write_together
from tests.triton.model_folders import batching, write_postprocess
from tests.triton.running_server import RunningServer

CLASSES = ["road", "car", "sky", "tree", "dog"]
DECLARED = {"task": "semantic", "names": str(dict(enumerate(CLASSES))), "stride": "32"}
NETWORKS = {
    "logits": families.semantic(),
    "ids": families.semantic(name="output0", ids="uint8", metadata=DECLARED),
}
SIZE = (48, 64)
LOGITS = np.random.default_rng(0).normal(0, 3, (3, len(CLASSES), 12, 16)).astype(np.float32)
GEOMETRY = np.float32([[1.6, 1.6, 0, 8, 40, 20, 1, 0]] * 2 + [[1, 1, 0, 3, 64, 42, 1, 0]])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"logits": ["--preset", "ultralytics"], "ids": []}
    cases = ((name, each, options[name]) for name, each in NETWORKS.items())
    folder = write_together(cases, tmp_path_factory.mktemp("semantic"))
    parameters = {"head": "semantic", "num_classes": len(CLASSES), "input_size": "48,64"}
    for name, batch in (("post", 8), ("post_single", 0)):
        write_postprocess(
            folder,
            name,
            parameters=parameters,
            max_batch_size=batch,
            more=batching(1000) if batch else "",
        )
    return folder


def expected_maps() -> list[class_maps.Map]:
    return [
        class_maps.class_map(logits, input_size=SIZE, geometry=geometry)
        for logits, geometry in zip(LOGITS, GEOMETRY, strict=True)
    ]


def read_png(file: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(file)) as picture:
        assert (picture.format, picture.mode) == ("PNG", "L")
        return np.asarray(picture)


def rles(ids: class_maps.Map) -> list[bytes]:
    return [masks.encode(ids == n) if (ids == n).any() else b"" for n in range(len(CLASSES))]


def test_outputs_of_one_image(connection: grpc_client.InferenceServerClient) -> None:
    expected = expected_maps()[2]
    tensors = {"logits": LOGITS[2], "geometry": GEOMETRY[2]}
    response = infer(connection, "post_single", tensors)
    np.testing.assert_array_equal(response["class_map"], expected)
    assert response["map_size"].tolist() == [42, 64]
    np.testing.assert_array_equal(read_png(response["class_map_png"][0]), expected)
    assert response["class_rle"].tolist() == rles(expected)
    for name, values in response.items():  # alone, too
        alone = infer(connection, "post_single", tensors, outputs=[name])
        assert list(alone) == [name]
        np.testing.assert_array_equal(alone[name], values)


def test_batches(connection: grpc_client.InferenceServerClient) -> None:
    """Of images of one size; of others PNG files and run-length encodings, and empty arrays."""
    expected = expected_maps()
    same = infer(connection, "post", {"logits": LOGITS[:2], "geometry": GEOMETRY[:2]})
    np.testing.assert_array_equal(same["class_map"], expected[:2])
    tensors = {"logits": LOGITS, "geometry": GEOMETRY}
    response = infer(connection, "post", tensors)
    assert response["class_map"].shape == (len(LOGITS), 0, 0)
    for row, ids in enumerate(expected):
        np.testing.assert_array_equal(read_png(response["class_map_png"][row, 0]), ids)
        assert response["class_rle"][row].tolist() == rles(ids)
        assert response["map_size"][row].tolist() == [*ids.shape]
    with pytest.raises(InferenceServerException) as error:
        infer(connection, "post", tensors, outputs=["class_map", "map_size"])
    assert "differ in size: request the output class_map_png, or send one image" in str(error.value)


def test_an_image_that_failed_before(connection: grpc_client.InferenceServerClient) -> None:
    status = np.int32([[0], [int(endcap.Status.CORRUPT_IMAGE)], [0]])
    geometry = GEOMETRY[[0, 2, 0]]
    response = infer(connection, "post", {"logits": LOGITS, "geometry": geometry, "status": status})
    np.testing.assert_array_equal(response["status"], status)
    assert response["map_size"].tolist() == [[20, 40], [0, 0], [20, 40]]
    assert (response["class_map"][1] == 255).all()
    np.testing.assert_array_equal(response["class_map"][0], expected_maps()[0])
    assert response["class_map_png"][1, 0] == b""
    assert response["class_rle"][1].tolist() == [b""] * len(CLASSES)


def test_bad_logits_are_named(connection: grpc_client.InferenceServerClient) -> None:
    logits = LOGITS.copy()
    logits[1, 2, 3, 4] = np.nan
    with pytest.raises(InferenceServerException) as error:
        infer(connection, "post", {"logits": logits, "geometry": GEOMETRY[[0] * 3]})
    assert "image index 1 of 3: the logit of class 2 at row 3, column 4 is" in str(error.value)


def test_validate_has_no_findings(repository: Path) -> None:
    done = run_command("validate", repository, "--strict")
    assert "0 errors, 0 warnings" in done.stdout, done.stdout


def test_an_ensemble_takes_images_of_several_sizes(
    connection: grpc_client.InferenceServerClient,
) -> None:
    encoded = {"encoded": strings(PICTURES)}
    response = infer(connection, "logits", encoded, outputs=["class_map_png", "map_size"])
    for row, jpeg in enumerate(PICTURES):
        ids = read_png(response["class_map_png"][row, 0])
        assert response["map_size"][row].tolist() == [*ids.shape]
        assert (ids == expected_result("logits", jpeg)).mean() > 0.999


def expected_result(name: str, jpeg: bytes) -> npt.NDArray[np.uint8]:
    tensor, geometry = letterboxed(jpeg)
    (output,) = NETWORKS[name].expected_outputs(tensor).values()
    postprocessor = endcap.Postprocessor(
        "semantic", len(CLASSES), input_size=64, class_map=name == "ids"
    )
    head = output if name == "logits" else output.astype(np.uint8)
    maps: Any = postprocessor(head, np.append(geometry[:6], [1, 0]).astype(np.float32))
    ids: npt.NDArray[np.uint8] = maps[0].class_map
    return ids


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 3])
def test_the_client_returns_segmentations(served: RunningServer, name: str, batch: int) -> None:
    with DetectionClient(served.grpc, model=name, batch=batch) as client:
        assert client.task is Task.segmentation
        results = client.detect(PICTURES)
    for jpeg, result in zip(PICTURES, results, strict=True):
        assert result.ok, result.error
        assert result.segmentation is not None
        expected = expected_result(name, jpeg)
        share = (result.segmentation.class_map == expected).mean()
        assert share > 0.999  # decoded and resized by the reference: other logits by a rounding
        labels = [each.label for each in result.segmentation.classes()]
        assert set(labels) <= ({*CLASSES} if name == "ids" else {None})
        rows = result.to_rows()
        assert sum(row["pixels"] for row in rows) == expected.size
        assert "SegmentationMap" in repr(result)


def test_the_command(served: RunningServer, tmp_path: Path) -> None:
    for number, jpeg in enumerate(PICTURES[:2]):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg)
    (tmp_path / "2.jpg").write_bytes(b"no image")
    at = ("--url", served.grpc, "--model", "ids")
    done = run_command("infer", tmp_path, *at, "--json", "--draw", tmp_path / "drawn")
    first, _, failed = json.loads(done.stdout)
    assert (failed["status"], done.returncode) == ("corrupt_image", 1)
    assert "classes" not in failed
    expected = expected_result("ids", PICTURES[0])
    assert first["size"] == [*expected.shape]
    for row in first["classes"]:
        inside = expected == row["class_id"]
        assert row["pixels"] == inside.sum()
        assert row["rle"].encode() == masks.encode(inside)
        assert row["label"] == CLASSES[row["class_id"]]
    before = Image.open(io.BytesIO(PICTURES[0]))
    drawn = Image.open(tmp_path / "drawn" / "0_detections.jpg").resize(before.size)
    assert np.abs(np.asarray(drawn, float) - np.asarray(before, float)).mean() > 5
    table = run_command("infer", tmp_path / "0.jpg", *at).stdout
    assert "road  " in table
    for option in ("--csv", "--coco", "--track"):
        refused = run_command("infer", tmp_path / "0.jpg", *at, option)
        assert refused.returncode == 2
        assert "gives the class of each pixel" in refused.stderr
    refused = run_command("infer", tmp_path / "0.jpg", *at, "--score-threshold", "0.5")
    assert refused.returncode == 2
    assert "gives no scores; leave out --score-threshold" in refused.stderr
