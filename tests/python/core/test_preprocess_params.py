"""Parameters: the core's tables, defaults, presets, typed keywords; `out=` and Preprocessor."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.parameters import (
    DecodeParameters,
    HeadParameters,
    PostprocessParameters,
    PreprocessParameters,
)
from endcap.tracking import TrackParameters
from tests.support import jpegs

DEFAULTS = {
    "size": "640,640",
    "fit": "letterbox",
    "resize_shorter": "256",
    "interpolation": "bilinear",
    "antialias": "false",
    "quantize": "uint8",
    "pad_value": "114",
    "pad_align": "center",
    "upscale": "true",
    "color": "rgb",
    "layout": "nchw",
    "dtype": "float32",
    "mean": "0,0,0",
    "std": "1,1,1",
    "exif": "apply",
    "formats": "jpeg,png,webp,y4m",
    "base64": "accept",
    "alpha": "drop",
    "decode": "exact",
    "jpeg_decoder": "auto",
    "max_pixels": "89478485",
    "max_side": "65500",
    "max_bytes": str(64 * 2**20),
    "max_scans": "500",
    "max_coefficient_bytes": str(256 * 2**20),
    "max_decoded_bytes": str(256 * 2**20),
    "truncated": "reject",
    "damaged": "reject",
    "max_rois": "1000",
    "max_roi_bytes": str(2**30),
    "tile": "0,0",
    "tile_overlap": "0.2",
    "tile_full": "true",
    "on_error": "error",
}


def test_defaults_are_those_of_the_table() -> None:
    parameters = dict(endcap.Preprocessor().parameters)
    scale = float(parameters.pop("scale"))
    assert scale == 1 / 255
    assert parameters == DEFAULTS


@pytest.mark.parametrize("preset", endcap.presets())
def test_parameters_read_back_and_override_a_preset(preset: str) -> None:
    """test_presets.py compares the tensors with those of the libraries."""
    parameters = endcap.Preprocessor(preset).parameters
    assert endcap.Preprocessor(**parameters).parameters == parameters
    given = {"size": (64, 32), "dtype": "float16", "pad_value": 3, "resize_shorter": 70}
    changed = {"size": "64,32", "dtype": "float16", "pad_value": "3", "resize_shorter": "70"}
    assert endcap.Preprocessor(preset, **given).parameters == {**parameters, **changed}


def test_parameters_of_postprocessing_read_back() -> None:
    fields = {
        **{"anchors": "grid", "anchor_grid": "8:16x16,24x12;20.5:40x41.5"},
        **{"variances": (0.1, 0.2, 0.3, 0.25), "score_thresholds": [0.5, 0.25], "classes": [1, 0]},
    }
    written = endcap.Postprocessor("ssd", num_classes=2, **fields).parameters
    assert written["anchor_grid"] == fields["anchor_grid"]
    assert written["variances"] == "0.1,0.2,0.3,0.25"
    assert (written["classes"], written["score_thresholds"]) == ("1,0", "0.5,0.25")
    assert endcap.Postprocessor(**written).parameters == written


def test_numpys_numbers_are_parameters() -> None:
    parameters = endcap.Preprocessor(
        size=np.array([32, 48]),
        pad_value=np.int64(7),
        scale=np.float64(0.5),
        mean=np.array([0.1, 0.2, 0.3]),
        dtype=np.dtype("float16"),
        antialias=np.bool_(True),
    ).parameters
    expected = {"size": "32,48", "pad_value": "7", "scale": "0.5", "mean": "0.1,0.2,0.3"}
    expected |= {"dtype": "float16", "antialias": "true"}
    assert {name: parameters[name] for name in expected} == expected
    assert endcap.Preprocessor(dtype=np.float16).parameters["dtype"] == "float16"


TABLE = endcap.Preprocessor().describe()
IMPOSSIBLE: list[dict[str, Any]] = [
    *({row.name: "maybe"} for row in TABLE if row.allowed.startswith("one of ")),
    *({row.name: value} for row in TABLE if row.name.startswith("max_") for value in (0, -5)),
    {"size": (0, 640)},
    {"size": (640, -1)},
    {"size": (1, 2, 3)},
    {"size": "big"},
    {"size": (10**9, 10**9)},
    {"fit": "center_crop", "size": (224, 224), "resize_shorter": 200},
    {"resize_shorter": 0},
    {"interpolation": "nearest", "antialias": True},
    {"pad_value": -1},
    {"pad_value": 256},
    {"pad_value": 0.5},
    {"dtype": np.float64},
    {"scale": float("nan")},
    {"scale": float("inf")},
    {"scale": 0.0},
    {"mean": (1.0, 2.0)},
    {"mean": (float("nan"), 0, 0)},
    {"std": (1.0, 0.0, 1.0)},
    {"std": (1.0, float("inf"), 1.0)},
    {"std": 1e-50},  # beyond float32, as the next ones
    {"mean": 1e30},
    {"scale": 1e-30},
    {"jpeg_decoder": "nvjpeg", "decode": "exact"},
    {"max_coefficient_bytes": 2**40 + 1},
    {"damaged": "accept", "decode": "fast", "jpeg_decoder": "nvjpeg"},
    {"formats": ""},
    {"formats": "jpeg,"},
    {"formats": "jpeg,tiff"},
    {"no_such_field": 1},
    {"preset": "yolo_of_my_own"},
    {"threads": -1},
]


@pytest.mark.parametrize("fields", IMPOSSIBLE, ids=str)
def test_impossible_parameters_are_refused_with_the_name(fields: dict[str, Any]) -> None:
    with pytest.raises((endcap.InvalidArgumentError, TypeError)) as caught:
        endcap.Preprocessor(**fields)
    assert any(name in str(caught.value) for name in fields)
    # Only a keyword that no function has may be a TypeError, as Python's own.
    if "no_such_field" not in fields:
        assert caught.type is endcap.InvalidArgumentError


@pytest.mark.parametrize("decoder", ["hybrid", "nvjpeg"])
def test_what_this_build_lacks_is_named_unsupported(decoder: str) -> None:
    with pytest.raises(endcap.UnsupportedError, match="jpeg_decoder"):
        endcap.Preprocessor(jpeg_decoder=decoder, decode="fast")


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_out_is_written_and_returned(layout: str, dtype: str) -> None:
    images = [jpegs.photo_jpeg(20, 30), jpegs.photo_jpeg(30, 20)]
    options = {"size": (16, 24), "layout": layout, "dtype": dtype}
    expected = endcap.preprocess(images, **options).images
    out = np.full_like(expected, 55)
    result = endcap.preprocess(images, out=out, **options)
    assert result.images is out
    np.testing.assert_array_equal(out, expected)


def unusable_outs() -> dict[str, np.ndarray]:
    read_only = np.zeros((1, 3, 16, 24), np.float32)
    read_only.setflags(write=False)
    return {
        "wrong_batch": np.zeros((2, 3, 16, 24), np.float32),
        "wrong_rank": np.zeros((3, 16, 24), np.float32),
        "wrong_side": np.zeros((1, 3, 24, 16), np.float32),
        "wrong_dtype": np.zeros((1, 3, 16, 24), np.float64),
        "wrong_byte_order": np.zeros((1, 3, 16, 24), ">f4"),
        "not_contiguous": np.zeros((1, 3, 16, 48), np.float32)[..., ::2],
        "read_only": read_only,
    }


@pytest.mark.parametrize("name", unusable_outs())
def test_unusable_out_is_refused_untouched(name: str) -> None:
    out = unusable_outs()[name]
    with pytest.raises(endcap.InvalidArgumentError, match="out"):
        endcap.preprocess(jpegs.photo_jpeg(20, 30), size=(16, 24), out=out)
    assert not out.any()


def test_limits_are_parameters() -> None:
    data = jpegs.photo_jpeg(30, 40)
    assert endcap.preprocess(data, size=8, max_side=40, max_pixels=1200).status[0] == 0
    for limit in ({"max_side": 39}, {"max_pixels": 1199}, {"max_bytes": len(data) - 1}):
        with pytest.raises(endcap.ImageLimitError, match=next(iter(limit))):
            endcap.preprocess(data, size=8, **limit)
        with pytest.raises(endcap.ImageLimitError, match=next(iter(limit))):
            endcap.decode(data, **limit)
    progressive = jpegs.encode(jpegs.photo(30, 40), progressive=True)
    with pytest.raises(endcap.ImageLimitError, match="max_scans"):
        endcap.decode(progressive, max_scans=3)
    assert endcap.decode(progressive, max_scans=20).shape == (30, 40, 3)
    # 3 x 2 MCUs of 6 blocks, 130 bytes each; the 32 that hold samples have 8 more.
    needed = 36 * 130 + 32 * 8
    for call in (endcap.decode, partial(endcap.preprocess, size=8)):
        with pytest.raises(endcap.ImageLimitError, match=f"take {needed} bytes"):
            call(progressive, max_coefficient_bytes=needed - 1)
        call(progressive, max_coefficient_bytes=needed)
        call(data, max_coefficient_bytes=1)  # one scan keeps none


TABLES = {
    PreprocessParameters: TABLE,
    PostprocessParameters: endcap.Postprocessor().describe(),
}


def choices(annotation: Any) -> set[str]:
    """The texts of a Literal that may also be None."""
    parts = typing.get_args(annotation)
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return {str(value) for part in literals for value in typing.get_args(part)}


@pytest.mark.parametrize("parameters", TABLES)
def test_names_and_choices_are_the_tables(parameters: type) -> None:
    rows = {row.name: row.allowed for row in TABLES[parameters]}
    types = typing.get_type_hints(parameters)
    assert set(types) == set(rows) - {"head", "num_classes"}
    named = [name for name in types if rows[name].startswith("one of ")]
    assert len(named) >= 5
    for name in named:
        assert choices(types[name]) == set(rows[name].removeprefix("one of ").split(", ")), name


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (endcap.Preprocessor, PreprocessParameters),
        (endcap.preprocess, PreprocessParameters),
        (endcap.Postprocessor, PostprocessParameters),
        (endcap.box_decode, HeadParameters),
        (endcap.decode, DecodeParameters),
        (endcap.Tracker, TrackParameters),
    ],
)
def test_signatures_list_them(function: Callable[..., Any], parameters: type) -> None:
    listed, names = inspect.signature(function).parameters, [*typing.get_type_hints(parameters)]
    assert [*listed][-len(names) :] == names
    assert all(listed[name].default is None for name in names)


@pytest.mark.parametrize(
    ("engine", "given", "meant"),
    [
        (endcap.Preprocessor, {"imgsz": 640}, "size"),
        (endcap.Preprocessor, {"interpolaton": "area"}, "interpolation"),
        (endcap.Preprocessor, {"Size": 640}, "size"),
        (endcap.Preprocessor, {"preset": "yolo11"}, "ultralytics"),
        (endcap.Preprocessor, {"preset": "torchvison"}, "torchvision"),
        (endcap.Preprocessor, {"interpolation": "linear"}, "bilinear"),
        (endcap.Preprocessor, {"dtype": "fp16"}, "float16"),
        (endcap.Preprocessor, {"formats": "jpg"}, "jpeg"),
        (endcap.Postprocessor, {"conf": 0.3}, "score_threshold"),
        (endcap.Postprocessor, {"iou": 0.5}, "iou_threshold"),
        (endcap.Postprocessor, {"max_det": 5}, "max_detections"),
        (endcap.Postprocessor, {"head": "yolo11"}, "yolov8"),
        (endcap.Postprocessor, {"head": "yolo26"}, "end2end"),
        (endcap.Postprocessor, {"head": "yolov8-seg"}, "yolov8_seg"),
    ],
)
def test_a_wrong_name_comes_with_the_right_one(
    engine: Any, given: dict[str, Any], meant: str
) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=rf"; did you mean '{meant}'\?$"):
        engine(**given)


def test_a_number_in_the_place_of_a_name_says_where_it_goes() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"preset is 640: .* given as size=640"):
        endcap.Preprocessor(640)  # type: ignore[arg-type]
    with pytest.raises(endcap.InvalidArgumentError, match=r"head is 80: .* as num_classes=80"):
        endcap.Postprocessor(80)  # type: ignore[arg-type]


def test_a_name_that_is_like_no_other_gets_no_guess() -> None:
    for given in ({"zzz": 1}, {"preset": "nothing"}, {"zzzzzzzzzz" * 9: 1}):
        with pytest.raises(endcap.InvalidArgumentError) as caught:
            endcap.Preprocessor(**given)
        assert "did you mean" not in str(caught.value)
