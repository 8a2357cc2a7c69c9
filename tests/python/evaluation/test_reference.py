"""The reference's pixels against endcap's own, and the networks that it takes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from onnx import TensorProto
from onnx_heads import write_network
from sample_heads import yolov8_head
from tolerances import (
    NORMALISED_STEPS,
    OPENCV_RESIZE_EXACT_SHARE,
    OPENCV_RESIZE_STEPS,
    ROUND_TRIP_PIXELS,
)

import endcap
from endcap.errors import CorruptImageError
from endcap.evaluation import numpy_heads, onnx_network, reference
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.reference import Reference, place_image
from endcap.evaluation.reference_settings import Color, Fit, HeadName, ReferenceSettings

SIZE = (320, 416)  # height, width


@pytest.mark.parametrize(
    "module",
    [numpy_heads, onnx_network, reference],
)
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
    allowed = ("endcap.evaluation.", "endcap.errors")
    assert all(name.startswith(allowed) for name in ours)


def test_heavy_packages_are_loaded_when_they_are_needed() -> None:
    code = (
        "import sys\n"
        "from endcap.cli.app import program\n"
        "program(with_commands=True)\n"
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
        fit=Fit(options.get("fit", "letterbox")),
        upscale=options.get("upscale", True),
        pad_centered=options.get("pad_align") != "top_left",
        pad_value=options.get("pad_value", 114),
        color=Color(options.get("color", "rgb")),
        scale=options.get("scale", 1 / 255),
        mean=options.get("mean", (0.0, 0.0, 0.0)),
        std=options.get("std", (1.0, 1.0, 1.0)),
        apply_exif=options.get("exif") != "ignore",
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


@pytest.mark.parametrize("encoded", [b"", b"not an image"])
def test_what_opencv_cannot_decode_is_said(encoded: bytes) -> None:
    with pytest.raises(CorruptImageError, match="OpenCV cannot decode it"):
        place_image(encoded, SIZE, ReferenceSettings())


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
        ({"image": [1, 1, 64, 96]}, {}, r"takes images of 1 channel.*; \[1, 3, H, W\]"),
        ({"image": [1, 64, 96, 3]}, {}, "takes images of 64 channels"),
        ({"image": [1, "c", 64, 96], "channels": 4}, {}, "cannot be run on an image of 64x96"),
        ({}, {"size": (64, 64)}, "takes images of 64x96 .* size is 64x64"),
        ({}, {"num_classes": 4}, r"shape \[7, 64\], and yolov8 has \[4 \+ C, A\] with C = 4"),
        ({}, {"head": HeadName.yolov5, "num_classes": 3}, "yolov5 has"),
        ({"head": HEAD.T}, {}, "another family with --head"),
        ({"heads": 2}, {}, "one head of three dimensions is expected"),
        ({"image": [1, 3, 64]}, {}, r"takes images tensor\(float\) \[1, 3, 64\]; one image"),
        ({"element": TensorProto.DOUBLE}, {}, "float32, float16, uint8 or int8 is expected"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    network: dict[str, Any],
    settings: dict[str, Any],
    said: str,
) -> None:
    path = write_network(tmp_path / "model.onnx", **{"head": HEAD, **network})
    with pytest.raises(EvaluationError, match=said) as caught:
        Reference(path, ReferenceSettings(**settings))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == "", "ONNX Runtime adds nothing"


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    for path, said in ((bad, "cannot be loaded: "), (tmp_path / "no.onnx", "is no file")):
        with pytest.raises(EvaluationError, match=said) as caught:
            Reference(path, ReferenceSettings())
        assert "\n" not in str(caught.value)
