"""The simd implementations of decode and preprocess against the scalar ones: equal bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import cv2
import jpegs
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import endcap
from endcap import _core

TARGETS = _core.simd_targets()
pytestmark = [
    pytest.mark.usefixtures("unforced"),
    pytest.mark.skipif(not TARGETS, reason="this CPU has no SIMD target"),
]

SAMPLINGS = {
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:4:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "4:1:1": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


def both(run, target: str):  # type: ignore[no-untyped-def]
    """The results of `run`: those of scalar, and those of simd for one target."""
    endcap.force_implementation("scalar")
    expected = run()
    endcap.force_implementation("simd")
    _core.force_simd_target(target)
    actual = run()
    ran = {i.stage: i.kind for i in endcap.implementations() if i.ran_last}
    assert ran["decode"] == ran.get("preprocess", "simd") == "simd"
    assert _core.simd_target() == target
    endcap.force_implementation("auto")
    return expected, actual


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("progressive", [False, True], ids=["baseline", "progressive"])
def test_decoded_pixels_are_those_of_libjpeg_turbo(
    target: str, sampling: str, progressive: bool
) -> None:
    for height, width in [(1, 1), (2, 3), (5, 4), (6, 5), (7, 8), (16, 17), (33, 31), (50, 130)]:
        pixels = jpegs.photo(height, width, seed=height)
        file = jpegs.encode_sampled(pixels, SAMPLINGS[sampling])
        if progressive and sampling in ("4:4:4", "4:2:2", "4:2:0"):
            file = jpegs.encode(pixels, subsampling=sampling, progressive=True)
        expected, actual = both(lambda file=file: endcap.decode(file), target)
        np.testing.assert_array_equal(actual, expected, err_msg=f"{height}x{width}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "file",
    [
        jpegs.encode(jpegs.photo(40, 50)[..., 0]),
        jpegs.encode(jpegs.photo(40, 50), keep_rgb=True),
        jpegs.encode(np.dstack([jpegs.photo(40, 50), jpegs.photo(40, 50)[..., :1]])),
    ],
    ids=["gray", "rgb", "cmyk"],
)
def test_other_colors_are_decoded_as_well(target: str, file: bytes) -> None:
    for color in ("rgb", "gray"):
        expected, actual = both(
            lambda color=color: endcap.preprocess(file, size=(33, 35), color=color).images, target
        )
        np.testing.assert_array_equal(actual, expected)


sizes = st.integers(1, 80)
MEANS = (0.485, 0.456, 0.406)


@pytest.mark.parametrize("target", TARGETS)
@given(
    source=st.tuples(sizes, sizes),
    size=st.tuples(sizes, sizes),
    recipe=st.fixed_dictionaries(
        {
            "fit": st.sampled_from(["letterbox", "stretch", "center_crop"]),
            "color": st.sampled_from(["rgb", "bgr", "gray"]),
            "layout": st.sampled_from(["nchw", "nhwc"]),
            "dtype": st.sampled_from(["float32", "float16", "uint8", "int8"]),
            "quantize": st.sampled_from(["uint8", "none"]),
            "interpolation": st.sampled_from(["bilinear", "nearest", "bicubic", "area"]),
            "antialias": st.booleans(),
            "decode": st.sampled_from(["exact", "fast"]),
            "mean": st.sampled_from([(0.0, 0.0, 0.0), MEANS]),
            "std": st.sampled_from([(1.0, 1.0, 1.0), (0.229, 0.224, 0.225)]),
        }
    ),
    encoded=st.booleans(),
    orientation=st.integers(1, 8),
)
@example((60, 80), (1, 1), {}, True, 1)
@example((1, 1), (80, 80), {}, True, 6)
@example((70, 70), (13, 7), {"antialias": True, "quantize": "none"}, False, 1)
# Four columns of pixels within a vector, and a little more; the last ones are less than four.
@example((30, 153), (20, 79), {"fit": "stretch"}, True, 1)
@example((30, 158), (20, 79), {"fit": "stretch"}, True, 2)
@example((30, 162), (20, 79), {"fit": "stretch"}, True, 2)
def test_tensors_are_equal(
    target: str,
    source: tuple[int, int],
    size: tuple[int, int],
    recipe: dict[str, object],
    encoded: bool,
    orientation: int,
) -> None:
    if recipe.get("interpolation") == "nearest":
        recipe = {**recipe, "antialias": False}
    # As often as not the size that the image has already.
    shorter = max(min(source), *size) if sum(size) % 2 else max(size)
    recipe = {**recipe, "resize_shorter": shorter}
    pixels = jpegs.photo(*source, seed=sum(source))
    image = jpegs.encode(pixels, orientation=orientation) if encoded else pixels
    try:
        expected, actual = both(
            lambda: endcap.preprocess(image, size=size, **recipe).images,  # type: ignore[arg-type]
            target,
        )
    except endcap.UnsupportedError:
        return
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("preset", _core.preset_names())
def test_every_preset_is_equal_for_all_values_of_a_pixel(target: str, preset: str) -> None:
    # All 256 values of each channel, at the size that is copied and not resized.
    values = np.arange(256, dtype=np.uint8)
    pixels = np.dstack([values, values[::-1], np.roll(values, 100)])
    for dtype in ("float32", "float16", "uint8", "int8"):
        expected, actual = both(
            lambda dtype=dtype: (
                endcap.preprocess(
                    [pixels, jpegs.photo_jpeg(20, 30)],
                    preset=preset,
                    size=(1, 256),
                    fit="stretch",
                    dtype=dtype,
                ).images
            ),
            target,
        )
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files_fail_alike(target: str) -> None:
    file = jpegs.photo_jpeg(200, 300)
    cut = [file[: len(file) * share // 10] for share in range(2, 10)]

    def statuses() -> list[int]:
        result = endcap.preprocess([*cut, file], size=(64, 64), on_error="blank")
        return [*result.status.tolist(), int(result.images.any(axis=(1, 2, 3)).sum())]

    expected, actual = both(statuses, target)
    assert actual == expected
    assert actual[-1] == 1


@pytest.mark.parametrize("value", ["abacus", *TARGETS])
def test_the_environment_names_the_target(value: str) -> None:
    program = (
        "import sys, endcap\n"
        "from endcap import _core\n"
        "try:\n"
        "    endcap.decode(sys.stdin.buffer.read())\n"
        "    print(_core.simd_target())\n"
        "except endcap.InvalidArgumentError as error:\n"
        "    print(error)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        input=jpegs.photo_jpeg(8, 8),
        env={**os.environ, "ENDCAP_SIMD_TARGET": value, "ENDCAP_FORCE_IMPLEMENTATION": "simd"},
        capture_output=True,
        check=True,
    )
    printed = child.stdout.decode().strip()
    if value in TARGETS:
        assert printed == value
    else:
        assert "ENDCAP_SIMD_TARGET is 'abacus'" in printed
        assert TARGETS[0] in printed


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_regions_from_any_column(target: str, sampling: str) -> None:
    """Those of simd make only the columns that are needed, which may begin inside a pair."""
    file = jpegs.encode_sampled(jpegs.photo(70, 90), SAMPLINGS[sampling])
    for left in (0, 1, 2, 3, 15, 16, 17, 63, 87):
        for width in (1, 2, 3, 40):
            rois = [[left, 20, left + width, 45], [left, 50, left + 1, 52]]
            expected, actual = both(
                lambda rois=rois: endcap.preprocess(file, size=24, rois=rois).images, target
            )
            np.testing.assert_array_equal(actual, expected, err_msg=f"{left} and {width} columns")
