"""The reference's tensors of classifiers and of networks of other kinds against endcap's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from onnx import TensorProto
from onnx_heads import write_echo
from tolerances import (
    FLOAT_NORMALISE_RTOL,
    FLOAT_RESIZE_STEPS,
    NORMALISED_STEPS,
    OPENCV_RESIZE_EXACT_SHARE,
    OPENCV_RESIZE_STEPS,
    ROUND_TRIP_PIXELS,
)

import endcap
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.onnx_network import OnnxNetwork
from endcap.evaluation.reference import Reference, place_image
from endcap.evaluation.reference_settings import Color, Fit, HeadName, ReferenceSettings
from endcap.evaluation.served_config import with_preset

SIZE = (192, 224)  # height, width
PHOTOS = {
    "wide": jpegs.photo_jpeg(301, 500),
    "high": jpegs.photo_jpeg(517, 333, seed=1),
    "small": jpegs.photo_jpeg(97, 131, seed=2),
    "rotated": jpegs.encode(jpegs.photo(210, 420, seed=5), orientation=6),
    "gray": jpegs.encode(jpegs.photo(210, 420, channels=1), progressive=True),
}


@pytest.mark.parametrize("preset", endcap.presets())
@pytest.mark.parametrize("photo", list(PHOTOS))
def test_a_presets_tensor_is_that_of_preprocess(preset: str, photo: str) -> None:
    settings = with_preset(ReferenceSettings(size=SIZE), preset)
    placed = place_image(PHOTOS[photo], SIZE, settings)
    result = endcap.preprocess(PHOTOS[photo], preset, size=SIZE)
    assert placed.tensor.shape == result.images.shape
    std = np.array(settings.std, np.float32)
    std = std if settings.channels_last else std.reshape(3, 1, 1)
    steps = np.abs(placed.tensor - result.images) * std / settings.scale
    equal = NORMALISED_STEPS if settings.quantized else FLOAT_RESIZE_STEPS
    assert steps.max() <= (OPENCV_RESIZE_STEPS if settings.quantized else 0) + equal
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


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"color": "gray"}, {"color": Color.gray}),
        ({"color": "gray", "mean": 0.5, "std": 0.25},
         {"color": Color.gray, "mean": (0.5,), "std": (0.25,)}),
        ({"color": "bgr", "layout": "nhwc"}, {"color": Color.bgr, "channels_last": True}),
        ({"fit": "center_crop", "resize_shorter": 230},
         {"fit": Fit.center_crop, "resize_shorter": 230}),
        ({"antialias": True}, {"antialias": True}),
        ({"antialias": True, "color": "gray", "layout": "nhwc"},
         {"antialias": True, "color": Color.gray, "channels_last": True}),
    ],
)  # fmt: skip
def test_other_tensors_are_those_of_preprocess(
    options: dict[str, Any], settings: dict[str, Any]
) -> None:
    wanted = ReferenceSettings(**settings)
    placed = place_image(PHOTOS["wide"], SIZE, wanted)
    result = endcap.preprocess(PHOTOS["wide"], size=SIZE, **options)
    assert placed.tensor.shape == result.images.shape
    steps = np.abs(placed.tensor - result.images) * wanted.std[0] / wanted.scale
    assert steps.max() <= OPENCV_RESIZE_STEPS + NORMALISED_STEPS
    assert (steps < NORMALISED_STEPS).mean() >= OPENCV_RESIZE_EXACT_SHARE


@pytest.mark.parametrize(
    ("dtype", "element", "scale", "mean"),
    [
        ("float32", TensorProto.FLOAT, 1 / 255, 0.0),
        ("float16", TensorProto.FLOAT16, 1 / 255, 0.0),
        ("uint8", TensorProto.UINT8, 1.0, 0.0),
        ("uint8", TensorProto.UINT8, 1.5, 20.0),  # rounds half, and saturates at both ends
        ("int8", TensorProto.INT8, 1.0, 128.0),
    ],
)
def test_the_network_gets_numbers_of_its_type(
    tmp_path: Path, dtype: str, element: int, scale: float, mean: float
) -> None:
    image = [*SIZE, 3]
    network = write_echo(tmp_path / "echo.onnx", image=image, element=element)
    pixels = jpegs.encode(jpegs.photo(*SIZE), subsampling="4:4:4")  # no resize: exact
    settings = ReferenceSettings(
        size=SIZE, channels_last=True, scale=scale, mean=(mean,) * 3, head=HeadName.classification
    )
    placed = place_image(pixels, SIZE, settings)
    (numbers,) = OnnxNetwork(network, settings).run(placed.tensor)
    options = {"layout": "nhwc", "dtype": dtype, "scale": scale, "mean": mean}
    expected = endcap.preprocess(pixels, size=SIZE, **options).images
    assert expected.dtype == dtype
    assert len(np.unique(expected)) > 50
    rtol = FLOAT_NORMALISE_RTOL if dtype == "float32" else 0
    np.testing.assert_allclose(numbers, expected.astype(np.float32).ravel(), rtol=rtol, atol=0)


@pytest.mark.parametrize(
    ("image", "settings", "said"),
    [
        ([3, 64, 96], {"channels_last": True}, r"takes images of 96 channels.*\[1, H, W, 3\]"),
        ([64, 96, 1], {"channels_last": True}, "takes images of 1 channel "),
        ([3, 64, 96], {"color": Color.gray}, r"takes images of 3 channels.*\[1, 1, H, W\]"),
        ([3, 64, 96], {"fit": Fit.center_crop, "resize_shorter": 80}, "short side is 80"),
    ],
)
def test_a_network_of_another_layout_is_refused(
    tmp_path: Path, image: list[int], settings: dict[str, Any], said: str
) -> None:
    network = write_echo(tmp_path / "echo.onnx", image=image, element=TensorProto.FLOAT)
    with pytest.raises(EvaluationError, match=said):
        Reference(network, ReferenceSettings(head=HeadName.classification, **settings))
