"""Decoding: the pixels of OpenCV and Pillow, and EXIF orientation.

Files of every size and sampling are compared with libjpeg-turbo in tests/cpp.
"""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import endcap
from tests.reference.orientation import oriented
from tests.support import jpegs
from tests.support.other_libraries import opencv_rgb, pillow_rgb

SIZES = [(1, 1), (17, 33), (240, 319)]
KINDS: dict[str, dict[str, Any]] = {
    "baseline_420": {},
    "baseline_422": {"subsampling": "4:2:2"},
    "baseline_444": {"subsampling": "4:4:4"},
    "progressive_420": {"progressive": True},
    "progressive_422": {"progressive": True, "subsampling": "4:2:2"},
    "progressive_444": {"progressive": True, "subsampling": "4:4:4"},
    "restart_markers": {"restart_blocks": 3},
    "low_quality": {"quality": 5},
    "high_quality": {"quality": 100},
    "stored_as_rgb": {"keep_rgb": True},
    "gray": {"channels": 1},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_colour_equals_opencv(size: tuple[int, int], kind: str) -> None:
    options = {**KINDS[kind]}
    pixels = jpegs.photo(*size, seed=size[1], channels=options.pop("channels", 3))
    data = jpegs.encode(pixels, **options)
    decoded = endcap.decode(data)
    assert decoded.dtype == np.uint8
    assert decoded.shape == (*size, 3)
    np.testing.assert_array_equal(decoded, opencv_rgb(data))


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("transform", [0, 2], ids=["cmyk", "ycck"])
def test_adobe_four_colour_equals_pillow(transform: int, progressive: bool) -> None:
    data = jpegs.encode(jpegs.photo(45, 67, channels=4), progressive=progressive)
    data = jpegs.with_adobe_transform(data, transform)
    np.testing.assert_array_equal(endcap.decode(data), pillow_rgb(data))


def test_four_colours_without_an_adobe_segment_are_read_as_adobes_too() -> None:
    data = jpegs.encode(jpegs.photo(45, 67, channels=4))
    data = jpegs.remove_segments(data, jpegs.APP14)
    np.testing.assert_array_equal(endcap.decode(data), pillow_rgb(data))


@pytest.mark.parametrize("byte_order", ["<", ">"], ids=["little_endian", "big_endian"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation: int, progressive: bool, byte_order: str) -> None:
    plain = jpegs.encode(jpegs.photo(34, 51), progressive=progressive)
    data = jpegs.with_exif(plain, jpegs.exif_segment(orientation, byte_order=byte_order))
    stored = endcap.decode(data, exif="ignore")
    np.testing.assert_array_equal(stored, endcap.decode(plain))
    rotated = endcap.decode(data)
    np.testing.assert_array_equal(rotated, oriented(stored, orientation))
    np.testing.assert_array_equal(rotated, opencv_rgb(data))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_of_gray_and_cmyk(orientation: int) -> None:
    for channels in (1, 4):
        plain = jpegs.encode(jpegs.photo(10, 25, channels=channels))
        data = jpegs.with_exif(plain, jpegs.exif_segment(orientation))
        np.testing.assert_array_equal(
            endcap.decode(data), oriented(endcap.decode(plain), orientation)
        )


def test_many_huge_exif_segments_are_harmless() -> None:
    """test_exif_orientation.py has one of each kind of damage."""
    data = plain = jpegs.photo_jpeg(34, 51)
    for _ in range(40):
        data = jpegs.with_exif(data, b"Exif\0\0".ljust(65533, b"\0"))
    np.testing.assert_array_equal(endcap.decode(data), endcap.decode(plain))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, np.frombuffer])
def test_bytes_like_objects(wrap: Any) -> None:
    data = jpegs.photo_jpeg(20, 30)
    given = wrap(data, np.uint8) if wrap is np.frombuffer else wrap(data)
    np.testing.assert_array_equal(endcap.decode(given), opencv_rgb(data))


def test_result_is_writable_and_owned_by_the_caller() -> None:
    data = jpegs.photo_jpeg(20, 30)
    first = endcap.decode(data)
    second = endcap.decode(data)
    first[:] = 0
    assert second.any()
    np.testing.assert_array_equal(endcap.decode(data), second)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_flat_pictures_are_not_refused_as_bombs(mode: str, progressive: bool) -> None:
    out = io.BytesIO()
    Image.new(mode, (1600, 1200), 128).save(out, "JPEG", optimize=True, progressive=progressive)
    data = out.getvalue()
    assert len(data) < 1600 * 1200 / 100
    np.testing.assert_array_equal(endcap.decode(data), opencv_rgb(data))


TRAILERS = {
    "zeros": lambda data: data + b"\0" * 1000,
    "scan markers": lambda data: data + bytes([0xFF, jpegs.SOS]) * 600,
}


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("name", TRAILERS)
def test_what_follows_the_pixels_changes_nothing(name: str, progressive: bool) -> None:
    data = jpegs.encode(jpegs.photo(48, 64), progressive=progressive)
    np.testing.assert_array_equal(endcap.decode(TRAILERS[name](data)), endcap.decode(data))


def test_preprocess_takes_gray_from_the_luma_plane() -> None:
    data = jpegs.photo_jpeg(48, 64)
    luma = opencv_rgb(data, cv2.IMREAD_GRAYSCALE)
    result = endcap.preprocess(data, size=(48, 64), color="gray", dtype="uint8")
    np.testing.assert_array_equal(result.images[0, 0], luma)


def test_a_progressive_file_without_a_scan_for_each_component_is_cut_short() -> None:
    data = jpegs.encode(jpegs.photo(40, 56), progressive=True)
    sos = bytes([0xFF, jpegs.SOS])
    first = data.index(sos)
    # The first scan begins all components; told to name only one, it leaves two without any.
    assert data[first + 4] == 3
    one = sos + bytes([0, 8, 1, data[first + 5], data[first + 6]]) + data[first + 11 : first + 14]
    with pytest.raises(endcap.CorruptImageError, match="no scan"):
        endcap.decode(data[:first] + one + data[first + 14 :])
