"""Each step of DALI's own operators against endcap's: where they agree, how far, and where not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tolerances
from jpegs import encode, encode_sampled, photo

import endcap
from benchmarks.dali import differences, kinds
from benchmarks.dali.differences import Difference, measured, worst
from benchmarks.dali.kinds import KINDS, Kind

PICTURES = {"photo": photo(872, 1000), "half": photo(1280, 720), **differences.pictures()}


def kind(name: str) -> Kind:
    (found,) = (each for each in KINDS if each.name == name)
    return found


def files() -> dict[str, bytes]:
    import cv2

    factors = {
        name: getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{name}") for name in ("411", "440")
    }
    picture = photo(431, 653)
    return {
        **differences.jpegs(),
        **{name: encode_sampled(picture, factor) for name, factor in factors.items()},
        "restart intervals": encode(picture, restart_blocks=7),
        "RGB inside": encode(picture, keep_rgb=True),
        "one pixel": encode(photo(1, 1)),
    }


def test_decoding_is_the_same_on_the_cpu() -> None:
    assert measured(kind("decoding"), files()).largest == 0


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_oriented_where_the_decoder_knows_exif(orientation: int) -> None:
    picture = photo(43, 65)
    file = encode(picture, orientation=orientation)
    wanted = endcap.decode(file if kinds.decoder_orients() else encode(picture))
    np.testing.assert_array_equal(kinds.decode(file), wanted)


def test_the_upsampling_option_means_nothing_on_the_cpu() -> None:
    file = encode(photo(431, 653), subsampling="4:2:0")
    for fancy in (False, True):
        found = kinds.decode(file, jpeg_fancy_upsampling=fancy)
        np.testing.assert_array_equal(found, endcap.decode(file))


def test_inks_are_truncated_by_dali() -> None:
    found = measured(kind("decoding of CMYK"), differences.cmyk())
    assert 0 < found.largest <= tolerances.DALI_CMYK_STEPS


def resized(name: str, pictures: Mapping[str, Any] = PICTURES) -> Difference:
    return measured(kind(name), pictures)


def test_resizing_differs_by_rounding_only() -> None:
    found = resized("resizing, `subpixel_scale=False, antialias=False`")
    assert 0 < found.largest <= tolerances.DALI_RESIZE_STEPS
    assert found.share <= tolerances.DALI_RESIZE_SHARE


@pytest.mark.parametrize("size", [(640, 640), (427, 640), (1920, 1080), (1281, 1920)])
def test_nothing_is_rounded_at_odd_whole_factors(size: tuple[int, int]) -> None:
    """Every resized pixel is one of the source."""
    picture = photo(*size)
    np.testing.assert_array_equal(
        kinds.resize(picture, subpixel_scale=False, antialias=False), kinds.endcap_resize(picture)
    )


def test_float_pixels_are_the_same() -> None:
    found = resized('the same in float32, against `quantize="none"`')
    assert found.largest <= tolerances.DALI_FLOAT_RESIZE_STEPS


def test_float_pixels_against_rounded_ones() -> None:
    found = resized("resizing to float32")
    assert 0.5 < found.largest <= tolerances.DALI_FLOAT_AGAINST_ROUNDED_STEPS


@pytest.mark.parametrize(
    "name",
    [
        'resizing, `mode="not_larger", subpixel_scale=True`',
        "resizing, `antialias=True`",
        "resizing, `INTERP_CUBIC`, against `bicubic`",
    ],
)
def test_what_pipeline_c_must_not_take(name: str) -> None:
    """DALI's defaults, and its cubic, are other pictures by far more than rounding."""
    assert resized(name).largest > 10 * tolerances.DALI_RESIZE_STEPS


def test_halves_of_a_pixel_are_rounded_apart() -> None:
    picture = differences.noise(*differences.HALF_A_PIXEL)
    assert kinds.resize_not_larger(picture).shape == (321, 640, 3)
    assert kinds.endcap_resize(picture).shape == (320, 640, 3)
    geometry = endcap.preprocess(picture, size=640).geometry
    assert geometry[0, 1] == np.float32(320 / 641)


def test_antialiased_pictures_differ_at_the_border() -> None:
    border = tolerances.DALI_ANTIALIAS_BORDER
    inside, everywhere = [], []
    for name, picture in PICTURES.items():
        if min(kinds.letterboxed(*picture.shape[:2])) <= 2 * border:
            continue
        theirs = kinds.resize(picture, subpixel_scale=False, antialias=True)
        ours = kinds.endcap_resize(picture, antialias=True)
        cut = (slice(border, -border), slice(border, -border))
        everywhere.append(Difference.of(theirs, ours, name))
        inside.append(Difference.of(theirs[cut], ours[cut], name))
    assert worst(everywhere).largest > tolerances.DALI_RESIZE_STEPS
    assert worst(inside).largest <= tolerances.DALI_RESIZE_STEPS


def test_a_damaged_file_ends_a_pipeline_of_dali() -> None:
    """With an option of its own: the pipeline is of no use to other tests afterwards."""
    file = encode(photo(64, 64))
    with pytest.raises(RuntimeError, match="decode"):
        kinds.decode(file[: len(file) // 2], jpeg_fancy_upsampling=True, use_fast_idct=False)
