"""endcap infer of heads with keypoints, angles and masks: files in, figures out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import numpy.typing as npt
import pytest
import sample_heads
from compared import assert_alike, comparisons, infer
from network_repository import DETECTIONS, Network, Tensor, write_ensemble
from onnx_heads import write_heads
from PIL import Image
from running_server import FREE_PORTS

import endcap
from endcap.client import DetectionClient
from endcap.masks import decode_rle
from endcap.server import ServerSettings, TritonServer

SIZE = (320, 416)  # height, width
PICTURE = (300, 500)
IMAGE = Tensor("TYPE_FP32", [3, *SIZE])
CLASSES = 3
ROWS = 300
MASKS = {"mask_size": Tensor("TYPE_INT32", [2]), "detection_rle": Tensor("TYPE_STRING", [ROWS])}
SEG = {"head": "yolov8_seg", "mask_coefficients": 8, "prototype_size": "80,104"}


@dataclass(frozen=True)
class Case:
    """A head's parameters, its tensors, and what the ensemble returns beside detections."""

    parameters: dict[str, object]
    heads: dict[str, npt.NDArray[np.float32]]
    responses: dict[str, Tensor] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        size = f"{SIZE[0]},{SIZE[1]}"
        return {"num_classes": CLASSES, "score_threshold": 0.5, "input_size": size} | dict(
            self.parameters
        )


def seg_heads() -> dict[str, npt.NDArray[np.float32]]:
    return sample_heads.seg_outputs(1, anchors=60, num_classes=CLASSES, size=(80, 104))


CASES = {
    "seg": Case(SEG | {"mask_resolution": "source"}, seg_heads(), MASKS),
    "seg_input": Case(
        SEG | {"mask_resolution": "input"},
        seg_heads(),
        MASKS | {"detection_masks": Tensor("TYPE_UINT8", [ROWS, 320, 52])},
    ),
    "pose": Case(
        {"head": "yolov8_pose", "num_keypoints": 17},
        {"head": sample_heads.pose_head(2, anchors=60, num_classes=CLASSES, keypoints=17)},
        {"detection_keypoints": Tensor("TYPE_FP32", [ROWS, 17, 3])},
    ),
    "obb": Case(
        {"head": "yolov8_obb"},
        {"head": sample_heads.obb_head(3, anchors=60, num_classes=CLASSES)},
        {"detection_angles": Tensor("TYPE_FP32", [ROWS])},
    ),
    "end2end_pose": Case(
        {"head": "end2end_pose", "num_keypoints": 17},
        {"head": sample_heads.end2end_pose_head(5, rows=60, num_classes=CLASSES, keypoints=17)},
        {"detection_keypoints": Tensor("TYPE_FP32", [ROWS, 17, 3])},
    ),
    "rtdetr": Case(
        {"head": "rtdetr"},
        sample_heads.rtdetr_outputs(4, queries=60, num_classes=CLASSES),
    ),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("repository")
    networks = tmp_path_factory.mktemp("networks")
    for name, case in CASES.items():
        own = {f"{tensor}_out": head for tensor, head in case.heads.items()}
        write_ensemble(
            repository,
            name,
            Network(
                file=write_heads(networks / f"{name}.onnx", own, image=IMAGE.dims),
                images=IMAGE,
                outputs={n: Tensor("TYPE_FP32", list(head.shape)) for n, head in own.items()},
                heads={tensor: f"{tensor}_out" for tensor in case.heads},
            ),
            preprocess={"preset": "ultralytics", "size": f"{SIZE[0]},{SIZE[1]}"},
            postprocess=case.settings(),
            responses=DETECTIONS | case.responses,
        )
    return repository


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    with TritonServer(repository, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    path.write_bytes(jpegs.photo_jpeg(*PICTURE))
    return path


def expected_of(case: Case, photo: Path) -> endcap.ImageDetections:
    geometry = endcap.preprocess(photo.read_bytes(), size=SIZE).geometry
    batch = {name: head[None] for name, head in case.heads.items()}
    postprocess = endcap.Postprocessor(**case.settings())
    found = postprocess(batch["head"] if len(batch) == 1 else batch, geometry)
    assert isinstance(found, endcap.Detections)
    return found[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_json_is_what_the_package_computes(
    server: TritonServer, photo: Path, name: str, protocol: str
) -> None:
    case = CASES[name]
    result = infer(server, photo, "--model", name, "--json", protocol=protocol)
    assert result.exit_code == 0, result.output
    (rows,) = (each["detections"] for each in json.loads(result.stdout))
    expected = expected_of(case, photo)
    assert len(rows) == len(expected) > 3
    assert [row["box"] for row in rows] == expected.boxes.tolist()
    for key, values in (("keypoints", expected.keypoints), ("angle", expected.angles)):
        wanted = [None] * len(rows) if values is None else values.tolist()
        assert [row.get(key) for row in rows] == wanted
    if expected.rle is None or expected.mask_size is None:
        assert not any("mask" in row for row in rows)
        return
    assert [row["mask"]["counts"].encode() for row in rows] == expected.rle
    assert {tuple(row["mask"]["size"]) for row in rows} == {expected.mask_size}


def test_masks_of_the_source_are_of_the_picture(server: TritonServer, photo: Path) -> None:
    with DetectionClient(server.grpc_url, model="seg") as client:
        (result,) = client.detect([photo])
    for detection in result.detections:
        assert detection.mask is not None
        rows, columns = np.nonzero(decode_rle(detection.mask["counts"], PICTURE))
        x1, y1, x2, y2 = detection.box
        if len(rows):
            assert x1 - 1 <= columns.min() <= columns.max() <= x2 + 1
            assert y1 - 1 <= rows.min() <= rows.max() <= y2 + 1


def test_masks_that_do_not_fit_are_said_once(
    server: TritonServer, photo: Path, tmp_path: Path
) -> None:
    pictures = {}
    for name, messages in (("seg", 1), ("seg_input", 2)):
        result = infer(server, photo, "--model", name, "--draw", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert len(result.stderr.splitlines()) == messages
        assert ("320x416 (height x width)" in result.stderr) == (name == "seg_input")
        with Image.open(tmp_path / name / "photo_detections.jpg") as picture:
            pictures[name] = np.asarray(picture.convert("RGB")).astype(int)
    differing = np.abs(pictures["seg"] - pictures["seg_input"]).max(axis=2) > 40
    assert differing.mean() > 0.05, "masks are on one of them"


@pytest.mark.parametrize("name", ["seg", "pose", "end2end_pose", "rtdetr"])
def test_boxes_are_those_of_the_reference(
    server: TritonServer, repository: Path, photo: Path, name: str
) -> None:
    found = comparisons(infer(server, photo, "--model", name, "--compare", repository, "--json"))
    assert_alike(found)


def test_rotated_boxes_have_no_reference(
    server: TritonServer, repository: Path, photo: Path
) -> None:
    result = infer(server, photo, "--model", "obb", "--compare", repository)
    assert result.exit_code == 2
    assert result.stderr.startswith("endcap: head is yolov8_obb in the steps of obb, and the ref")
    assert result.stderr.count("\n") == 1
