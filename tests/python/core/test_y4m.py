"""Frames of YUV as Y4M files: the planes' own results, limits, damage, and what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.support import forced_implementations
from tests.support.yuv_images import MATRICES, RANGES, SAMPLINGS, Planes, noise

forced_implementation = forced_implementations.on_each_implementation("preprocess")

TAGS = {"4:4:4": "444", "4:2:2": "422", "4:4:0": "440", "4:2:0": "420jpeg"}


def y4m(planes: Planes, tags: str = "C420", frame: str = "FRAME") -> bytes:
    """A file of one frame, written without the library."""
    height, width = planes.y.shape
    header = f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 {tags}\n{frame}\n"
    return header.encode() + b"".join(plane.tobytes() for plane in (planes.y, planes.u, planes.v))


def assert_equal(first: Any, second: Any, **options: Any) -> None:
    """Assert that two images have the same tensors and geometry."""
    one, other = (endcap.preprocess(image, size=48, **options) for image in (first, second))
    np.testing.assert_array_equal(one.images, other.images)
    np.testing.assert_array_equal(one.geometry, other.geometry)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("scale", RANGES)
@pytest.mark.parametrize("matrix", MATRICES)
def test_a_frame_is_its_planes(sampling: str, scale: str, matrix: str) -> None:
    planes = noise(37, 53, sampling)
    tags = f"C{TAGS[sampling]} XCOLORRANGE={scale.upper()} XCOLORMATRIX={matrix.upper()}"
    assert_equal(y4m(planes, tags), planes.image(matrix=matrix, range=scale))


@pytest.mark.parametrize("tag", ["", "C420", "C420mpeg2", "C420paldv", "C420jpeg XYSCSS=420JPEG"])
def test_tags_of_other_programs(tag: str) -> None:
    planes = noise(36, 50)
    assert_equal(y4m(planes, tag, "FRAME Ip XNOTE=1"), planes.image())
    assert_equal(y4m(planes, tag) + b"FRAME\nof which the first one counts", planes.image())


def test_gray_at_full_range() -> None:
    gray = noise(20, 30).y
    header = b"YUV4MPEG2 W30 H20 Cmono XCOLORRANGE=FULL\nFRAME\n"
    assert_equal(header + gray.tobytes(), gray)
    with pytest.raises(endcap.UnsupportedError, match="limited range: give XCOLORRANGE=FULL"):
        endcap.preprocess(header.replace(b"FULL", b"LIMITED") + gray.tobytes())


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 60),
    sampling=st.sampled_from(sorted(SAMPLINGS)),
    scale=st.sampled_from(RANGES),
)
def test_written_files_are_read_back(height: int, width: int, sampling: str, scale: str) -> None:
    planes = noise(height, width, sampling, seed=height * 997 + width)
    image = planes.image(matrix="bt709", range=scale)
    assert_equal(image.to_y4m(), image)


@pytest.mark.parametrize("size", [(2, 2), (36, 52), (37, 53), (1, 9), (9, 1), (1, 1)])
def test_nv12_is_written_unmodified(size: tuple[int, int]) -> None:
    planes = noise(*size)
    pair = endcap.nv12((planes.y, planes.uv), matrix="bt2020", range="full")
    assert_equal(pair.to_y4m(), pair)
    if size[0] % 2 == size[1] % 2 == 0:
        whole = endcap.nv12(planes.nv12, matrix="bt2020", range="full")
        assert whole.to_y4m() == pair.to_y4m()


def test_rows_that_lie_apart_are_written_dense() -> None:
    planes = noise(36, 52)

    def apart(plane: Any) -> Any:
        return np.pad(plane, ((0, 0), (0, 44)))[:, : plane.shape[1]]

    y, u, v = (apart(plane) for plane in (planes.y, planes.u, planes.v))
    assert endcap.planar_yuv(y, u, v).to_y4m() == planes.image().to_y4m()
    assert endcap.nv12(apart(planes.nv12)).to_y4m() == endcap.nv12(planes.nv12).to_y4m()


def test_planes_that_do_not_fit_are_not_written() -> None:
    y, u = np.zeros((20, 30), np.uint8), np.zeros((10, 14), np.uint8)
    with pytest.raises(endcap.InvalidArgumentError, match=r"\[20, 30\], \[10, 14\], \[10, 14\]"):
        endcap.planar_yuv(y, u, u).to_y4m()
    with pytest.raises(endcap.InvalidArgumentError, match=r"NV12 is uint8 \[31, 30\]"):
        endcap.nv12(np.zeros((31, 30), np.uint8)).to_y4m()
    with pytest.raises(endcap.InvalidArgumentError, match="a plane of an image is float32"):
        endcap.planar_yuv(y.astype(np.float32), u, u).to_y4m()


def test_regions_of_a_frame() -> None:
    planes = noise(40, 60)
    rois = np.array([[3, 5, 40, 38], [0, 0, 60, 40]], np.float32)
    assert_equal(planes.image().to_y4m(), planes.image(), rois=rois)


def test_cut_short_at_every_byte() -> None:
    file = y4m(noise(4, 6))
    for length in range(len(file)):
        with pytest.raises(endcap.CorruptImageError):
            endcap.preprocess(file[:length], size=8)


CORRUPT, LIMIT = endcap.CorruptImageError, endcap.ImageLimitError
HEADERS: list[tuple[str, type[Exception], str]] = [
    ("W4\nFRAME", CORRUPT, "no width or no height"),
    ("W4 H0\nFRAME", CORRUPT, "a side of '0'"),
    ("W4 H-2\nFRAME", CORRUPT, "a side of '-2'"),
    ("W4x H2\nFRAME", CORRUPT, "a side of '4x'"),
    ("W99999999999999999999 H2\nFRAME", CORRUPT, "a side of '9999999999999999'"),
    ("W4 H2\nFRAMF", CORRUPT, "has no frame"),
    ("W4 H2 X" + 2000 * "A" + "\nFRAME", CORRUPT, "a line of more than 1024"),
    ("W60000 H60000 C420\nFRAME", LIMIT, "max_pixels"),
    ("W40 H4\nFRAME", LIMIT, "max_side"),
    ("W4 H4 X" + 900 * "A" + "\nFRAME", LIMIT, "max_bytes"),
    *(
        (f"W4 H2 C{kind}\nFRAME", endcap.UnsupportedError, f"samples of the kind C{kind}")
        for kind in ("420p10", "444alpha", "411", "mono16")
    ),
]


@pytest.mark.parametrize(("header", "error", "message"), HEADERS)
def test_headers_that_are_refused(header: str, error: type[Exception], message: str) -> None:
    limits = {
        name: value for name, value in (("max_side", 39), ("max_bytes", 1000)) if name == message
    }
    with pytest.raises(error, match=message):
        endcap.preprocess(f"YUV4MPEG2 {header}\n".encode() + bytes(100), size=8, **limits)


def test_only_where_it_is_accepted() -> None:
    file = y4m(noise(30, 40))
    with pytest.raises(endcap.UnsupportedError, match="a Y4M image, which the parameter `formats`"):
        endcap.preprocess(file, size=8, formats="jpeg,png")
    with pytest.raises(endcap.UnsupportedError, match="planes of YUV, not RGB"):
        endcap.decode(file)
