"""fn.endcap.preprocess in real pipelines: bit for bit what endcap.preprocess gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run_files, samples_of
from tests.support import jpegs

SIDES = [(96, 128), (301, 200), (64, 64), (333, 517), (480, 90), (120, 80), (75, 130), (140, 90)]
FILES = [jpegs.photo_jpeg(*side, seed=i) for i, side in enumerate(SIDES)]
DTYPES = {
    "float32": types.FLOAT,
    "float16": types.FLOAT16,
    "uint8": types.UINT8,
    "int8": types.INT8,
}


def expect_equal(files: list[bytes], fields: dict[str, Any], **options: Any) -> None:
    """DALI's samples against endcap.preprocess with the same parameters."""
    parameters = {k: DTYPES[v] if k == "dtype" else v for k, v in fields.items()}
    images, geometry, status = run_files(files, options=options, **parameters)
    wanted = endcap.preprocess(files, **fields)
    assert len(images) == len(files)
    for i in range(len(files)):
        np.testing.assert_array_equal(images[i], wanted.images[i])
        assert images[i].dtype == wanted.images.dtype
        np.testing.assert_array_equal(geometry[i][:7], wanted.geometry[i][:7])
        assert geometry[i][7] == 0  # every sample is a request of its own
        assert status[i] == [0]


RECIPES: dict[str, dict[str, Any]] = {
    "lists": {"size": (48, 64), "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
    "one number of few digits": {"size": 64, "mean": 103.53, "scale": 0.017},
    "limits beyond 32 bits": {"size": 64, "max_pixels": 1_000_000, "max_bytes": 2**32},
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_arguments_of_every_type(recipe: str) -> None:
    expect_equal(FILES, RECIPES[recipe])


def test_arguments_override_a_preset() -> None:
    expect_equal(FILES, {"preset": "torchvision", "size": 64, "color": "bgr", "antialias": False})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_every_dtype_and_layout(dtype: str, layout: str) -> None:
    expect_equal(FILES, {"size": (48, 64), "dtype": dtype, "layout": layout})


@pytest.mark.parametrize(("layout", "name"), [("nchw", "CHW"), ("nhwc", "HWC")])
def test_images_carry_their_layout(layout: str, name: str) -> None:
    for size in (64, 3, 1):  # also where the side is a number of channels
        pipeline = build(
            lambda encoded, size=size: fn.endcap.preprocess(encoded, size=size, layout=layout),
            ["encoded"],
            1,
        )
        images, geometry, status = feed(pipeline, {"encoded": [as_bytes(FILES[0])]})
        assert images.layout() == name
        assert images.shape()[0] == ((3, size, size) if name == "CHW" else (size, size, 3))
        assert geometry.layout() == status.layout() == ""


def test_what_dali_knows_of_a_source_stays_with_the_sample(tmp_path: Any) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(FILES[0])

    def graph() -> Any:
        encoded, _ = fn.readers.file(files=[str(path)])
        images, _, _ = fn.endcap.preprocess(encoded, size=32)
        return fn.get_property(images, key="source_info")

    [[told]] = [samples_of(output) for output in feed(build(graph, [], 1), {})]
    assert bytes(told) == str(path).encode()


def test_batches_smaller_than_the_largest() -> None:
    pipeline = build(lambda encoded: fn.endcap.preprocess(encoded, size=64), ["encoded"], 8)
    for count in (1, 8, 3, 8):
        files = FILES[:count]
        images, _, _ = feed(pipeline, {"encoded": [as_bytes(f) for f in files]})
        wanted = endcap.preprocess(files, size=64).images
        np.testing.assert_array_equal(np.stack(samples_of(images)), wanted)
