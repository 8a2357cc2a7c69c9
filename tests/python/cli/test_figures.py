"""endcap infer of a model with keypoints, angles and masks, on a real Triton server."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from endcap.cli.pictures import PictureFolder
from endcap.client import Detection, DetectionClient, ImageDetections, ImageResult
from endcap.masks import encode_rle
from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support import coco_files
from tests.support.cli_runs import assert_error_message, endcap, write_pictures
from tests.support.echo_model import write_model

MASK_SIZE = (480, 640)  # height, width
BOX = (100.0, 120.0, 300.0, 220.0)
ANGLE = 0.5
KEYPOINTS = [[110.0, 130.0, 0.75], [600.0, 470.0, 0.25]]

CONFIG = """
backend: "python"
input [ { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "detection_boxes" data_type: TYPE_FP32 dims: [ 2, 4 ] },
  { name: "detection_scores" data_type: TYPE_FP32 dims: [ 2 ] },
  { name: "detection_classes" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_indices" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_keypoints" data_type: TYPE_FP32 dims: [ 2, -1, 3 ] },
  { name: "detection_angles" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "mask_size" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_rle" data_type: TYPE_STRING dims: [ 2 ] },
  { name: "detection_masks" data_type: TYPE_UINT8 dims: [ 2, 480, 80 ] },
  { name: "status" data_type: TYPE_INT32 dims: [ 1 ] }
]
max_batch_size: 1
instance_group [ { kind: KIND_CPU } ]
"""
# By the first byte: A angles of another shape; R a mask whose run lengths are none. What a request
# requests is what it gets, and detection_masks, megabytes that no client reads, is an error.
MODEL = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(encoded, requested):
    if "detection_masks" in requested:
        return pb_utils.InferenceResponse([], pb_utils.TritonError("detection_masks is requested"))
    kind = encoded[:1]
    rle = b"~no run lengths" if kind == b"R" else RLE
    tensors = {{
        "num_detections": np.array([[1]], np.int32),
        "detection_boxes": np.array([[{list(BOX)}, [0] * 4]], np.float32),
        "detection_scores": np.array([[0.75, 0]], np.float32),
        "detection_classes": np.zeros((1, 2), np.int32),
        "detection_indices": np.array([[4, -1]], np.int32),
        "detection_keypoints": np.array([[{KEYPOINTS}, [[0] * 3] * 2]], np.float32),
        "detection_angles": np.full((1, 3 if kind == b"A" else 2), {ANGLE}, np.float32),
        "mask_size": np.array([{list(MASK_SIZE)}], np.int32),
        "detection_rle": np.array([[rle, b""]], np.object_),
        "status": np.zeros((1, 1), np.int32)}}
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, tensors[name]) for name in tensors if name in requested])

class TritonPythonModel:
    def execute(self, requests):
        return [respond(pb_utils.get_input_tensor_by_name(each, "encoded").as_numpy()[0, 0],
                       set(each.requested_output_names())) for each in requests]
"""


def mask() -> np.ndarray:
    """An ellipse in the box, bool [480, 640]."""
    y, x = np.ogrid[: MASK_SIZE[0], : MASK_SIZE[1]]
    return np.asarray(((x - 200) / 90) ** 2 + ((y - 170) / 45) ** 2 < 1)


def write_figures_model(repository: Path) -> None:
    """Write the model `figures`."""
    write_model(repository, "figures", CONFIG, f"RLE = {encode_rle(mask())!r}\n{MODEL}")


GRAY = (90, 90, 90)
OBJECT = coco_files.annotation(1, 3, [0.0, 0.0, 9.0, 9.0])


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    repository = tmp_path_factory.mktemp("models")
    write_figures_model(repository)
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with TritonServer(repository, settings) as server:
        yield {"grpc": server.grpc_url, "http": server.http_url}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """a.JPEG of 96x80 and b.jpg of 640x480, which is the size of the model's masks."""
    return write_pictures(tmp_path / "pictures")


def infer(url: str, *arguments: object) -> Any:
    return endcap("infer", *arguments, "--url", url, "--model", "figures")


def test_json(urls: dict[str, str], pictures: Path) -> None:
    result = infer(urls["grpc"], pictures / "b.jpg", "--json")
    assert result.exit_code == 0, result.output
    ((detection,),) = (row["detections"] for row in json.loads(result.stdout))
    counts = encode_rle(mask()).decode()
    assert detection == {
        "box": list(BOX),
        "score": 0.75,
        "class_id": 0,
        "label": None,
        "keypoints": KEYPOINTS,
        "angle": ANGLE,
        "mask": {"size": list(MASK_SIZE), "counts": counts},
    }
    assert (coco_mask.decode(detection["mask"]) == mask()).all()


def test_csv_has_the_angle(urls: dict[str, str], pictures: Path) -> None:
    (pictures / "c.jpg").write_bytes(b"A")
    result = infer(urls["grpc"], pictures, "--csv")
    header, first, _, failed = csv.reader(io.StringIO(result.stdout))
    assert header[-5:] == ["x1", "y1", "x2", "y2", "angle"]
    assert [float(side) for side in first[-5:]] == [*BOX, ANGLE]
    assert failed[2:] == [""] * 8


def test_coco(urls: dict[str, str], pictures: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    assert infer(urls["grpc"], pictures, "--coco", "--output", file).exit_code == 0
    with contextlib.redirect_stdout(io.StringIO()):
        data = COCO(str(file))
        data.loadRes(json.loads(file.read_text())["annotations"])
    small, large = data.loadAnns(data.getAnnIds())
    assert (data.annToMask(large) == mask()).all()
    assert large["keypoints"] == [value for point in KEYPOINTS for value in point]
    assert large["num_keypoints"] == 2
    corners = Detection(BOX, 0, 0, None, 0, angle=ANGLE).corners()
    np.testing.assert_array_equal(np.reshape(small["segmentation"], (4, 2)), corners)
    x, y, width, height = small["bbox"]
    xs, ys = zip(*corners, strict=True)
    assert (x, y, x + width, y + height) == pytest.approx((min(xs), min(ys), max(xs), max(ys)))


def test_drawn_and_what_masks_are_missing(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "drawn"
    result = infer(urls["grpc"], pictures, "--draw", drawn)
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        f"2 pictures in {drawn}/",
        "endcap: masks are not drawn on 1 picture: they are of 480x640 (height x width), not of "
        "the picture's size; give postprocess mask_resolution source (`endcap init --set "
        "mask_resolution=source`)",
    ]
    with Image.open(drawn / "b_detections.jpg") as picture:
        red, green, _ = picture.convert("RGB").getpixel((200, 150))  # in the mask, on no line
        assert red > 100 > 80 > green
        assert picture.convert("RGB").getpixel((40, 400)) == GRAY


def test_an_invalid_response_fails_its_image_alone(urls: dict[str, str], pictures: Path) -> None:
    (pictures / "c.jpg").write_bytes(b"A")
    result = infer(urls["grpc"], pictures, "--json")
    assert result.exit_code == 1
    assert [row["status"] for row in json.loads(result.stdout)] == ["ok", "ok", "internal"]
    assert "detection_angles (1, 3); [1,2] is expected" in result.stderr


def test_coco_cannot_measure_rotated_boxes(urls: dict[str, str], pictures: Path) -> None:
    file = coco_files.write(pictures, coco_files.coco(1, [OBJECT]))
    result = endcap("evaluate", pictures, file, "--url", urls["grpc"], "--model", "figures")
    assert_error_message(result, "this model's are rotated by detection_angles")


def test_an_rle_that_is_none_makes_one_picture_missing(pictures: Path, tmp_path: Path) -> None:
    folder = PictureFolder(tmp_path / "drawn", [pictures / "b.jpg"])
    found = Detection(BOX, 0.5, 0, None, 0, mask={"size": [480, 640], "counts": "~"})
    folder.add(ImageResult(str(pictures / "b.jpg"), "ok", ImageDetections.from_list([found])), None)
    assert folder.written == 0
    assert len(folder.failures) == 1
    assert "b.jpg cannot be drawn: " in folder.failures[0]


def test_a_client_may_do_without(urls: dict[str, str], pictures: Path) -> None:
    with DetectionClient(urls["grpc"], model="figures", extras=False) as client:
        assert "detection_rle" in client.outputs
        (result,) = client.detect([pictures / "b.jpg"])
    assert result.detections == [Detection(BOX, 0.75, 0, None, 4)]
