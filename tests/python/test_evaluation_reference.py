"""The reference against endcap's own stages, which share no code with it."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from onnx import TensorProto
from onnx_heads import write_network
from sample_heads import Floats, yolov5_head, yolov8_head
from tolerances import (
    NORMALISED_STEPS,
    OPENCV_RESIZE_EXACT_SHARE,
    OPENCV_RESIZE_STEPS,
    ROUND_TRIP_PIXELS,
)

import endcap
from endcap.errors import CorruptImageError, InvalidArgumentError, UnsupportedError
from endcap.evaluation import nms_numpy, numpy_heads, opencv_tensor, reference
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.nms_numpy import suppress
from endcap.evaluation.opencv_tensor import place_image
from endcap.evaluation.reference import Reference
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings
from endcap.evaluation.served_config import read_settings, with_preset

SIZE = (320, 416)  # height, width
SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"


@pytest.mark.parametrize("module", [nms_numpy, numpy_heads, opencv_tensor, reference])
def test_the_reference_uses_nothing_of_what_it_checks(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = [
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    ours = {name for name in imported if name.startswith("endcap")}
    assert all(name.startswith(("endcap.evaluation.", "endcap.errors")) for name in ours)


def test_heavy_packages_are_loaded_when_they_are_needed() -> None:
    code = (
        "import sys, endcap.cli.app\n"
        "print([m for m in ('cv2', 'pycocotools', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n", done.stderr


# --- pixels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (jpegs.photo_jpeg(300, 500), {}),
        (jpegs.photo_jpeg(501, 333, seed=1), {}),
        (jpegs.photo_jpeg(37, 61, seed=2), {}),
        (jpegs.photo_jpeg(37, 61, seed=2), {"upscale": False}),
        (jpegs.photo_jpeg(2000, 77, seed=3), {"pad_align": "top_left", "pad_value": 0}),
        (jpegs.photo_jpeg(333, 501, seed=4), {"fit": "stretch", "color": "bgr"}),
        (jpegs.photo_jpeg(333, 501, seed=4), {"scale": 1, "mean": (1, 2, 3), "std": (4, 5, 6)}),
        (jpegs.encode(jpegs.photo(210, 420, seed=5), orientation=6), {}),
        (jpegs.encode(jpegs.photo(210, 420, seed=5), orientation=6), {"exif": "ignore"}),
        (jpegs.encode(jpegs.photo(210, 420, channels=1), progressive=True), {}),
        (jpegs.encode(jpegs.photo(320, 416, seed=6), subsampling="4:4:4"), {}),
    ],
)
def test_tensors_are_those_of_preprocess(image: bytes, options: dict[str, Any]) -> None:
    settings = ReferenceSettings(
        letterbox=options.get("fit") != "stretch",
        upscale=options.get("upscale", True),
        pad_centered=options.get("pad_align") != "top_left",
        pad_value=options.get("pad_value", 114),
        rgb=options.get("color") != "bgr",
        scale=options.get("scale", 1 / 255),
        mean=options.get("mean", (0.0, 0.0, 0.0)),
        std=options.get("std", (1.0, 1.0, 1.0)),
        upright=options.get("exif") != "ignore",
    )
    placed = place_image(image, SIZE, settings)
    result = endcap.preprocess(image, preset="ultralytics", size=SIZE, **options)
    assert placed.tensor.shape == result.images.shape
    std = np.array(settings.std, np.float32).reshape(3, 1, 1)
    steps = np.abs(placed.tensor - result.images) * std / settings.scale
    assert steps.max() <= OPENCV_RESIZE_STEPS + NORMALISED_STEPS
    assert (steps < NORMALISED_STEPS).mean() >= OPENCV_RESIZE_EXACT_SHARE
    scale_x, scale_y, pad_x, pad_y, width, height = result.geometry[0, :6]
    assert (placed.left, placed.top, *placed.source) == (pad_x, pad_y, width, height)
    corners = np.array([[pad_x, pad_y, pad_x + width * scale_x, pad_y + height * scale_y]])
    np.testing.assert_allclose(
        placed.to_source(corners.astype(np.float64)),
        [[0, 0, width, height]],
        rtol=0,
        atol=ROUND_TRIP_PIXELS,
    )


def test_boxes_are_clipped_to_the_picture() -> None:
    placed = place_image(jpegs.photo_jpeg(100, 200), (64, 64), ReferenceSettings())
    clipped = placed.to_source(np.array([[-50.0, -50.0, 500.0, 500.0]]))
    assert clipped.tolist() == [[0.0, 0.0, 200.0, 100.0]]


@pytest.mark.parametrize("encoded", [b"", b"not an image"])
def test_what_opencv_cannot_decode_is_said(encoded: bytes) -> None:
    with pytest.raises(CorruptImageError, match="OpenCV cannot decode it"):
        place_image(encoded, SIZE, ReferenceSettings())


# --- heads and suppression ------------------------------------------------------------------------


HEADS: dict[HeadName, Callable[..., Floats]] = {
    HeadName.yolov8: yolov8_head,
    HeadName.yolov5: yolov5_head,
}


@pytest.mark.parametrize("family", list(HeadName))
@pytest.mark.parametrize(
    "options",
    [
        {"score_threshold": 0.001},
        {"score_threshold": 0.25, "iou_threshold": 0.45},
        {"score_threshold": 0.3, "multi_label": True},
        {"score_threshold": 0.3, "class_agnostic": True, "max_detections": 20},
        {"score_threshold": 0.01, "max_candidates": 100},
        {"score_threshold": 1.0},
    ],
)
def test_detections_are_those_of_postprocess(
    tmp_path: Path, family: HeadName, options: dict[str, Any]
) -> None:
    head = HEADS[family](7, anchors=800, num_classes=5)
    image = jpegs.photo_jpeg(300, 500)
    network = write_network(tmp_path / "model.onnx", head, image=[1, 3, *SIZE])
    settings = ReferenceSettings(head=family, **options)
    boxes, scores, class_ids = Reference(network, settings).detect(image)
    geometry = endcap.preprocess(image, preset="ultralytics", size=SIZE).geometry
    postprocess = endcap.Postprocessor(family.value, num_classes=5, **options)
    expected = postprocess(head[None], geometry)[0]
    assert class_ids.tolist() == expected.class_ids.tolist()
    assert scores.astype(np.float32).tolist() == expected.scores.tolist()
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)
    assert (len(boxes) > 0) == (options["score_threshold"] < 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_suppression_is_that_of_batched_nms(seed: int) -> None:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 200, (600, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 80, (600, 2))], 1)
    boxes[:5, 2:] = boxes[:5, :2]  # empty ones, two of them equal
    boxes[1] = boxes[0]
    class_ids = random.integers(0, 4, 600)
    scores = np.linspace(1, 0, 600, dtype=np.float32)
    kept = suppress(boxes, class_ids, iou_threshold=0.4, max_detections=600)
    single = boxes.astype(np.float32)
    expected = endcap.batched_nms(single, scores, class_ids.astype(np.int32), iou_threshold=0.4)
    assert kept.tolist() == list(expected)


def test_nothing_to_suppress() -> None:
    none = np.zeros((0, 4)), np.zeros(0, np.int64)
    assert suppress(*none, iou_threshold=0.5, max_detections=10).tolist() == []


# --- the network ----------------------------------------------------------------------------------

HEAD = yolov8_head(0, anchors=64, num_classes=3)


def test_size_and_classes_come_from_the_network(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    fixed = Reference(write_network(path, HEAD), ReferenceSettings())
    assert (fixed.size, fixed.num_classes) == ((64, 96), 3)
    free = write_network(path, HEAD, image=["n", 3, "h", "w"], element=TensorProto.FLOAT16)
    assert Reference(free, ReferenceSettings()).size == (640, 640)
    sized = Reference(free, ReferenceSettings(size=(32, 48)))
    assert sized.size == (32, 48)
    assert len(sized.detect(jpegs.photo_jpeg(50, 60))[0]) > 0


@pytest.mark.parametrize(
    ("network", "settings", "said"),
    [
        ({"image": [4, 3, 64, 96]}, {}, "takes 4 images at once"),
        ({}, {"size": (64, 64)}, "takes images of 64x96 .* size is 64x64"),
        ({}, {"num_classes": 4}, r"shape \[7, 64\], and yolov8 has \[4 \+ C, A\] with C = 4"),
        ({}, {"head": HeadName.yolov5, "num_classes": 3}, "yolov5 has"),
        ({"head": HEAD.T}, {}, "another family with --head"),
        ({"heads": 2}, {}, "one head of three dimensions is expected"),
        ({"image": [1, 3, 64]}, {}, r"takes images tensor\(float\) \[1, 3, 64\]; one image"),
        ({"element": TensorProto.DOUBLE}, {}, "float32 or float16 is expected"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(
    tmp_path: Path, network: dict[str, Any], settings: dict[str, Any], said: str
) -> None:
    path = write_network(tmp_path / "model.onnx", **{"head": HEAD, **network})
    with pytest.raises(EvaluationError, match=said):
        Reference(path, ReferenceSettings(**settings))


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    for path, said in ((bad, "cannot be loaded: "), (tmp_path / "no.onnx", "is no file")):
        with pytest.raises(EvaluationError, match=said) as caught:
            Reference(path, ReferenceSettings())
        assert "\n" not in str(caught.value)


# --- what is read from a repository ---------------------------------------------------------------


def edited(folder: Path, name: str, *parameters: str) -> Path:
    """The shipped configurations, with more parameters in one model."""
    for model in ("detect", "preprocess", "detector", "postprocess"):
        (folder / model).mkdir()
        text = (SHIPPED / model / "config.pbtxt").read_text(encoding="utf-8")
        if model == name:
            for each in parameters:
                key, value = each.split("=")
                text += f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        (folder / model / "config.pbtxt").write_text(text, encoding="utf-8")
    return folder


def test_the_shipped_repository_is_the_default_with_its_own_classes() -> None:
    read = read_settings(SHIPPED, "detect")
    assert read == ReferenceSettings(size=(640, 640), num_classes=6, score_threshold=0.4)


def test_a_preset_changes_the_images_alone() -> None:
    served = read_settings(SHIPPED, "detect")
    changed = dataclasses.replace(served, letterbox=False, rgb=False, scale=1.0, upright=False)
    assert with_preset(changed, "ultralytics") == served


@pytest.mark.parametrize(
    ("preset", "error", "message"),
    [
        ("torchvision", UnsupportedError, "fit is center_crop in preset torchvision"),
        ("inception", UnsupportedError, "quantize is none in preset inception"),
        ("nonsense", InvalidArgumentError, "nonsense"),
    ],
)
def test_a_preset_that_cannot_be_imitated_is_named(
    preset: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        with_preset(ReferenceSettings(), preset)


def test_parameters_are_read_under_the_preset(tmp_path: Path) -> None:
    changes = ("size=320,416", "fit=stretch", "color=bgr", "mean=0.5", "exif=ignore", "threads=2")
    read = read_settings(edited(tmp_path, "preprocess", *changes), "detect")
    assert read == dataclasses.replace(
        read_settings(SHIPPED, "detect"),
        size=(320, 416),
        letterbox=False,
        rgb=False,
        mean=(0.5, 0.5, 0.5),
        upright=False,
    )


def test_postprocess_parameters_are_read(tmp_path: Path) -> None:
    changes = ("iou_threshold=0.5", "max_detections=50", "multi_label=true", "class_agnostic=1")
    read = read_settings(edited(tmp_path, "postprocess", *changes), "detect")
    assert (read.iou_threshold, read.max_detections) == (0.5, 50)
    assert (read.multi_label, read.class_agnostic) == (True, True)


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("preprocess", "preset=torchvision", "fit is center_crop"),
        ("preprocess", "preset=rtdetr", "antialias is true"),
        ("preprocess", "interpolation=nearest", "knows only bilinear; .*--predictions"),
        ("postprocess", "head=end2end", "head is end2end .* only yolov8 and yolov5"),
        ("postprocess", "activation=sigmoid", "activation is sigmoid"),
    ],
)
def test_what_the_reference_cannot_do_is_named(
    tmp_path: Path, model: str, change: str, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        read_settings(edited(tmp_path, model, change), "detect")


def test_an_ensemble_of_other_steps_is_refused(tmp_path: Path) -> None:
    repository = edited(tmp_path, "")
    config = repository / "preprocess" / "config.pbtxt"
    config.write_text('backend: "python"')
    with pytest.raises(UnsupportedError, match="has 0 steps in backend endcap_preprocess"):
        read_settings(repository, "detect")
