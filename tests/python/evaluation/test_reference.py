"""The reference: its pixels, what it takes from a repository, and what it refuses."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import endcap
from endcap.errors import CorruptImageError, UnsupportedError
from endcap.evaluation import EvaluationError, numpy_heads, numpy_images
from endcap.evaluation.numpy_images import place_image, read_image, to_tensor
from endcap.evaluation.reference import Reference, open_reference
from tests.support import jpegs
from tests.support.onnx_heads import write_classifier, write_echo, write_heads, write_network
from tests.support.sample_heads import yolov8_head
from tests.support.tolerances import (
    FLOAT_NORMALISE_RTOL,
    FLOAT_RESIZE_STEPS,
    NORMALISED_STEPS,
    OPENCV_RESIZE_EXACT_SHARE,
    OPENCV_RESIZE_STEPS,
    ROUND_TRIP_PIXELS,
)

SIZE = (192, 224)  # height, width
SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"


@pytest.mark.parametrize("module", [numpy_heads, numpy_images])
def test_the_reference_uses_nothing_of_what_it_checks(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported.append(node.module or "")
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    ours = [name for name in imported if name.startswith("endcap")]
    assert ours
    assert all(name.startswith(("endcap.evaluation", "endcap.errors")) for name in ours)


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

PHOTOS = {
    "wide": jpegs.photo_jpeg(301, 500),
    "high": jpegs.photo_jpeg(2000, 77, seed=3),
    "small": jpegs.photo_jpeg(97, 131, seed=2),
    "rotated": jpegs.encode(jpegs.photo(210, 420, seed=5), orientation=6),
    "gray": jpegs.encode(jpegs.photo(210, 420, channels=1), progressive=True),
    "same": jpegs.encode(jpegs.photo(*SIZE, seed=6), subsampling="4:4:4"),
}


@pytest.mark.parametrize(
    ("photo", "options"),
    [
        *((photo, {"preset": "ultralytics"}) for photo in PHOTOS),
        *(("wide", {"preset": preset}) for preset in endcap.presets()),
        ("small", {"upscale": False}),
        ("high", {"pad_align": "top_left", "pad_value": 0}),
        ("wide", {"fit": "stretch", "color": "bgr", "layout": "nhwc"}),
        ("wide", {"scale": 1, "mean": (1, 2, 3), "std": (4, 5, 6)}),
        ("rotated", {"exif": "ignore"}),
        ("wide", {"color": "gray", "mean": 0.5, "std": 0.25}),
        ("wide", {"fit": "center_crop", "resize_shorter": 230, "antialias": True}),
        ("wide", {"quantize": "none"}),
    ],
)
def test_tensors_are_those_of_preprocess(photo: str, options: dict[str, Any]) -> None:
    parameters = endcap.Preprocessor(**options, size=SIZE).parameters
    placed = place_image(read_image(PHOTOS[photo], parameters), parameters)
    tensor = to_tensor(placed.pixels, parameters)
    result = endcap.preprocess(PHOTOS[photo], **options, size=SIZE)
    assert tensor.shape == result.images.shape
    std = np.array(parameters["std"].split(","), np.float32)[: min(result.images.shape[1:])]
    std = std if parameters["layout"] == "nhwc" else std.reshape(-1, 1, 1)
    steps = np.abs(tensor - result.images) * std / float(parameters["scale"])
    is_whole = parameters["quantize"] == "uint8"
    equal = NORMALISED_STEPS if is_whole else FLOAT_RESIZE_STEPS
    assert steps.max() <= (OPENCV_RESIZE_STEPS if is_whole else 0) + equal
    assert (steps < equal).mean() >= OPENCV_RESIZE_EXACT_SHARE
    boxes = np.array([[3.0, 5.0, 100.0, 90.0], [50.0, 60.0, 190.0, 188.0]])
    scale_x, scale_y, pad_x, pad_y, width, height = result.geometry[0, :6].astype(np.float64)
    mapped = (boxes - [pad_x, pad_y] * 2) / ([scale_x, scale_y] * 2)
    np.testing.assert_allclose(
        placed.to_source(boxes),
        np.clip(mapped, 0, [width, height] * 2),
        rtol=0,
        atol=ROUND_TRIP_PIXELS,
    )


@pytest.mark.parametrize("encoded", [b"", b"not an image"])
def test_what_opencv_cannot_decode_is_said(encoded: bytes) -> None:
    with pytest.raises(CorruptImageError, match="OpenCV cannot decode it"):
        read_image(encoded, endcap.Preprocessor().parameters)


@pytest.mark.parametrize(
    ("dtype", "element", "scale", "mean"),
    [
        ("float32", TensorProto.FLOAT, 1 / 255, 0.0),
        ("float16", TensorProto.FLOAT16, 1 / 255, 0.0),
        ("uint8", TensorProto.UINT8, 1.5, 20.0),  # rounds half, and saturates at both ends
        ("int8", TensorProto.INT8, 1.0, 128.0),
    ],
)
def test_the_network_gets_numbers_of_its_type(
    tmp_path: Path, dtype: str, element: int, scale: float, mean: float
) -> None:
    network = write_echo(tmp_path / "echo.onnx", image=[*SIZE, 3], element=element)
    options = {"size": SIZE, "layout": "nhwc", "dtype": dtype, "scale": scale, "mean": mean}
    count = SIZE[0] * SIZE[1] * 3
    reference = Reference(network, options, {"head": "classification", "num_classes": count})
    image = read_image(PHOTOS["same"], reference.preprocess)  # no resize: exact
    (numbers,) = reference.run(to_tensor(image, reference.preprocess))
    expected = endcap.preprocess(PHOTOS["same"], **options).images  # type: ignore[arg-type]
    assert expected.dtype == dtype
    assert len(np.unique(expected)) > 50
    rtol = FLOAT_NORMALISE_RTOL if dtype == "float32" else 0
    np.testing.assert_allclose(numbers, expected.astype(np.float32).ravel(), rtol=rtol, atol=0)


# --- networks that do not fit ---------------------------------------------------------------------

HEAD = yolov8_head(0, anchors=64, num_classes=3)


@pytest.mark.parametrize(
    ("network", "postprocess", "said"),
    [
        ({"image": [4, 3, 64, 96]}, {}, r"cannot be run on images \[1, 3, 64, 96\]: .*invalid"),
        ({"image": [1, 64, 96, 3]}, {}, r"cannot be run on images \[1, 3, 64, 96\]: .*invalid"),
        ({"image": [1, "c", 64, 96], "channels": 4}, {}, r"cannot be run on images \[1, 3, 64"),
        ({"element": TensorProto.DOUBLE}, {}, "takes images .*double"),
        ({}, {"num_classes": 4}, r"returns \[7, 64\] .* num_classes 4 has \[8, -1\]"),
        ({}, {"head": "yolov5"}, r"head yolov5 with num_classes 3 has \[-1, 8\]"),
        ({}, {"head": "efficient_nms"}, "num_detections, boxes, scores, classes are expected"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    network: dict[str, Any],
    postprocess: dict[str, Any],
    said: str,
) -> None:
    path = write_network(tmp_path / "model.onnx", **{"head": HEAD, **network})
    after = {"num_classes": 3, **postprocess}
    with pytest.raises(EvaluationError, match=said) as caught:
        Reference(path, {"size": (64, 96)}, after, {"head": "head0"})
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == "", "ONNX Runtime adds nothing"


def test_what_is_not_a_network_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    for path, said in ((bad, "cannot be loaded: "), (tmp_path / "no.onnx", "is not a file")):
        with pytest.raises(EvaluationError, match=said) as caught:
            Reference(path, {}, {})
        assert "\n" not in str(caught.value)


def test_one_of_several_heads_is_the_one_that_is_served(tmp_path: Path) -> None:
    heads = {
        "auxiliary": yolov8_head(1, anchors=50, num_classes=3),
        "main": yolov8_head(2, anchors=60, num_classes=3),
    }
    heads["main"][:4] /= 10  # in the image
    network = write_heads(tmp_path / "model.onnx", heads)
    after = {"num_classes": 3, "score_threshold": 0.5}
    reference = Reference(network, {"size": (64, 96)}, after, {"head": "main"})
    _, scores, _ = reference.detect(jpegs.photo_jpeg(64, 96))
    assert scores[0] == heads["main"][4:].max()


def test_a_classifier_reads_the_image(tmp_path: Path) -> None:
    network = write_classifier(tmp_path / "model.onnx")
    after = {"head": "classification", "num_classes": 3, "activation": "none"}
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[..., 1] = 255
    scores, class_ids = Reference(network, {"size": (64, 96)}, after).classify(jpegs.encode(pixels))
    assert class_ids[0] == 1
    assert scores[0] > 0.9


# --- repositories ---------------------------------------------------------------------------------


def edited(folder: Path, name: str, *parameters: str) -> Path:
    """The shipped configurations, with more parameters in one model."""
    for model in ("detect", "preprocess", "detector", "postprocess"):
        (folder / model).mkdir(parents=True)
        text = (SHIPPED / model / "config.pbtxt").read_text(encoding="utf-8")
        if model == name:
            for each in parameters:
                key, value = each.split("=")
                text += f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        (folder / model / "config.pbtxt").write_text(text, encoding="utf-8")
    return folder


NETWORK = SHIPPED / "detector" / "1" / "model.onnx"


def test_parameters_are_those_of_the_repository(tmp_path: Path) -> None:
    served = open_reference(SHIPPED, "detect")
    assert (served.postprocess["num_classes"], served.postprocess["score_threshold"]) == (
        "6",
        "0.4",
    )
    read = open_reference(
        edited(tmp_path, "preprocess", "color=bgr", "exif=ignore", "threads=2"),
        "detect",
        network=NETWORK,
        score_threshold=0.001,
    )
    assert read.preprocess == {**served.preprocess, "color": "bgr", "exif": "ignore"}
    assert read.postprocess == {**served.postprocess, "score_threshold": "0.001"}


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("preprocess", "antialias=true quantize=none", "antialias only with quantize uint8"),
        ("preprocess", "tile=640", "makes tiles of an image .*--predictions"),
        ("preprocess", "interpolation=nearest", "has only bilinear; .*--predictions"),
        ("postprocess", "head=yolov8_obb", "head is yolov8_obb, .* reads only yolov8, .*--pred"),
    ],
)
def test_what_the_reference_cannot_do_is_named(
    tmp_path: Path, model: str, change: str, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        open_reference(edited(tmp_path, model, *change.split()), "detect", network=NETWORK)


def test_a_repository_without_a_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"has no ONNX file, .*--network FILE"):
        open_reference(edited(tmp_path, ""), "detect")


def test_an_ensemble_of_other_steps_is_refused(tmp_path: Path) -> None:
    repository = edited(tmp_path, "")
    (repository / "preprocess" / "config.pbtxt").write_text('backend: "python"')
    with pytest.raises(UnsupportedError, match="is not made of one step in endcap_preprocess"):
        open_reference(repository, "detect")
