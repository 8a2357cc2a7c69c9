"""Frames of VideoReader beside PyAV's own: codings, pixel formats, times, rotation."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import endcap
from endcap import YuvImage
from endcap.video import VideoFrame, VideoReader
from tests.support import tolerances
from tests.support.videos import CODINGS, decoded, encode, planes, scene

# Encoders of H.264 and H.265 take even sides at 4:2:0; 98x62 is cropped from whole blocks.
CASES = [
    *((coding, (160, 120), None) for coding in CODINGS),
    ("h264", (98, 62), "yuv420p"),
    ("hevc", (98, 62), "yuv420p"),
    ("h264", (98, 61), "yuv422p"),
    ("h264", (97, 61), "yuv444p"),
    ("vp9", (97, 61), "yuv420p"),
    ("vp9", (97, 61), "yuv422p"),
    ("vp9", (97, 61), "yuv440p"),
    ("vp9", (97, 61), "yuv444p"),
    ("av1", (97, 61), "yuv420p"),
    ("mjpeg", (97, 61), "yuvj420p"),
    ("mjpeg", (97, 61), "yuvj422p"),
    ("mjpeg", (97, 61), "yuvj444p"),
    ("raw", (97, 61), "yuv440p"),
    ("raw", (97, 61), "nv12"),
]


def read(data: Any, **options: Any) -> list[VideoFrame]:
    with VideoReader(data, **options) as reader:
        return list(reader)


def preprocessed(image: Any) -> NDArray[Any]:
    result: NDArray[Any] = endcap.preprocess(image, preset="ultralytics", size=96).images
    return result


def planar(own: list[NDArray[np.uint8]], range: str) -> YuvImage:
    y, u, v = own
    return endcap.planar_yuv(y, u, v, range=range)


def steps(frame: VideoFrame, reference: Any) -> NDArray[np.int64]:
    """How far a frame is from PyAV's own RGB."""
    pixels = reference.to_ndarray(format="rgb24").astype(np.int64)
    difference: NDArray[np.int64] = np.abs(frame.to_rgb().astype(np.int64) - pixels)
    return difference


@pytest.mark.parametrize(("coding", "size", "pix_fmt"), CASES)
def test_frames_equal_those_of_pyav(
    coding: str, size: tuple[int, int], pix_fmt: str | None, tmp_path: Path
) -> None:
    b_frames = 2 if coding in ("h264", "hevc") else None
    data = encode(scene(8, *size), coding, pix_fmt=pix_fmt, b_frames=b_frames)
    references = decoded(data)
    name = references[0].format.name
    assert name == (pix_fmt or CODINGS[coding][2])
    path = tmp_path / "clip.of.some.kind"
    path.write_bytes(data)
    for source in (data, path, str(path), io.BytesIO(data), path.open("rb")):
        frames = read(source)
        assert len(frames) == len(references) == 8
        for number, (frame, reference) in enumerate(zip(frames, references, strict=True)):
            assert frame.index == number
            assert frame.seconds == number / 25
            assert (frame.width, frame.height) == size
            assert isinstance(frame.image, YuvImage)
            own = planes(reference)
            colour_range = "full" if name.startswith("yuvj") else "limited"
            make = endcap.nv12 if name == "nv12" else planar
            image = make(own, range=colour_range)
            assert np.array_equal(preprocessed(frame.image), preprocessed(image))
            assert all(map(np.array_equal, frame.image.planes, own))
            assert steps(frame, reference).mean() < tolerances.VIDEO_CHROMA_MEAN
        if hasattr(source, "close"):
            source.close()


@pytest.mark.parametrize(
    ("colorspace", "matrix"), [(None, "bt601"), (1, "bt709"), (5, "bt601"), (9, "bt2020")]
)
@pytest.mark.parametrize("color_range", [1, 2])
def test_colours_are_read_as_the_file_says(
    colorspace: int | None, matrix: str, color_range: int
) -> None:
    data = encode(scene(2), pix_fmt="yuv444p", colorspace=colorspace, color_range=color_range)
    for frame, reference in zip(read(data), decoded(data), strict=True):
        assert isinstance(frame.image, YuvImage)
        assert frame.image.matrix == matrix
        assert frame.image.range == ("full" if color_range == 2 else "limited")
        assert steps(frame, reference).max() <= tolerances.VIDEO_444_STEPS


@pytest.mark.parametrize("colorspace", [4, 7], ids=["fcc", "smpte240m"])
def test_a_matrix_that_the_core_does_not_have_is_converted_by_ffmpeg(colorspace: int) -> None:
    data = encode(scene(2), pix_fmt="yuv444p", colorspace=colorspace)
    for frame, reference in zip(read(data), decoded(data), strict=True):
        assert isinstance(frame.image, np.ndarray)
        assert np.array_equal(frame.image, reference.to_ndarray(format="rgb24"))
        assert np.array_equal(frame.to_rgb(), frame.image)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p", "yuvj420p", "nv12"])
def test_planes_are_not_copied(pix_fmt: str) -> None:
    data = encode(scene(2), "raw" if pix_fmt == "nv12" else "h264", pix_fmt=pix_fmt)
    for frame in read(data):
        assert isinstance(frame.image, YuvImage)
        for plane in frame.image.planes:
            base = plane
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            owner = base.obj if isinstance(base, memoryview) else base
            assert isinstance(owner, av.video.plane.VideoPlane)
            assert not plane.flags.writeable


@pytest.mark.parametrize(
    ("coding", "pix_fmt", "shapes"),
    [
        ("h264", "yuv420p10le", [(62, 98), (31, 49), (31, 49)]),
        ("h264", "yuv422p10le", [(62, 98), (62, 49), (62, 49)]),
        ("h264", "yuv444p10le", [(62, 98), (62, 98), (62, 98)]),
        ("hevc", "yuv420p10le", [(62, 98), (31, 49), (31, 49)]),
        ("hevc", "yuv420p12le", [(62, 98), (31, 49), (31, 49)]),
        ("av1", "yuv420p10le", [(62, 98), (31, 49), (31, 49)]),
    ],
)
def test_more_bits_become_eight(coding: str, pix_fmt: str, shapes: list[tuple[int, int]]) -> None:
    data = encode(scene(2, 98, 62), coding, pix_fmt=pix_fmt)
    bits = 12 if "12" in pix_fmt else 10
    for frame, reference in zip(read(data), decoded(data), strict=True):
        assert reference.format.name == pix_fmt
        assert isinstance(frame.image, YuvImage)
        assert [plane.shape for plane in frame.image.planes] == shapes
        for ours, plane in zip(frame.image.planes, reference.planes, strict=True):
            rows = np.frombuffer(bytes(plane), "<u2").reshape(plane.height, -1)[:, : plane.width]
            difference = ours - rows / 2.0 ** (bits - 8)
            assert np.abs(difference).max() <= tolerances.VIDEO_10_BIT_STEPS


@pytest.mark.parametrize("pix_fmt", ["bgr0", "gray"])
def test_rgb_and_gray_are_arrays(pix_fmt: str) -> None:
    pixels = scene(2, 97, 61)
    if pix_fmt == "gray":
        pixels = [np.repeat(each[..., :1], 3, axis=-1) for each in pixels]
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        stream: Any = output.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 97, 61, pix_fmt
        for each in pixels:
            frame = av.VideoFrame.from_ndarray(each, "rgb24")
            if pix_fmt == "gray":  # whose range FFmpeg would change
                frame = av.VideoFrame.from_ndarray(each[..., 0].copy(), "gray")
            output.mux(stream.encode(frame.reformat(format=pix_fmt)))
        output.mux(stream.encode(None))
    for frame, each in zip(read(file.getvalue()), pixels, strict=True):
        assert np.array_equal(frame.image, each[..., 0] if pix_fmt == "gray" else each)
        assert np.array_equal(frame.to_rgb(), each)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuvj420p"])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotation_is_applied(rotation: int, pix_fmt: str) -> None:
    data = encode(scene(2, 98, 62), pix_fmt=pix_fmt, rotation=rotation)
    for frame, reference in zip(read(data), decoded(data), strict=True):
        upright = reference.to_ndarray(format="rgb24")
        shown = np.rot90(upright, -rotation // 90)
        assert frame.to_rgb().shape == shown.shape
        difference = np.abs(frame.to_rgb().astype(int) - shown)
        assert difference.mean() < tolerances.VIDEO_CHROMA_MEAN
        assert (frame.width, frame.height) == (shown.shape[1], shown.shape[0])
        assert frame.rotation == rotation


def test_time_stamps_of_a_variable_frame_rate_are_exact() -> None:
    times = [0, 10, 50, 1000, 1001, 3000, 3040, 9999]
    frames = read(encode(scene(8), container="matroska", times_ms=times, b_frames=2))
    assert [frame.pts for frame in frames] == times
    assert {frame.time_base for frame in frames} == {Fraction(1, 1000)}
    assert [frame.seconds for frame in frames] == [each / 1000 for each in times]


@pytest.mark.parametrize("container", ["mp4", "matroska", "mpegts", "avi", "h264", "flv"])
def test_b_frames_come_in_the_order_in_which_they_are_shown(container: str) -> None:
    pixels = [np.full((48, 64, 3), 20 * number, np.uint8) for number in range(12)]
    frames = read(encode(pixels, container=container, b_frames=3))
    levels = [int(frame.image.planes[0][24, 32]) for frame in frames]  # type: ignore[union-attr]
    assert levels == sorted(levels)
    assert len(set(levels)) == 12
    assert [frame.seconds for frame in frames] == [number / 25 for number in range(12)]
    # These files have no time stamps of frames that are shown in another order.
    assert all(frame.pts is None for frame in frames) == (container in ("avi", "h264"))


def test_key_frames_alone() -> None:
    for coding in ("h264", "hevc", "vp9", "av1"):
        options = {"svtav1-params": "lp=1:keyint=4"} if coding == "av1" else {"g": "4"}
        if coding == "hevc":
            options = {"x265-params": "log-level=0:keyint=4:min-keyint=4"}
        data = encode(scene(12), coding, options=options)
        keys = [frame.pts for frame in decoded(data) if frame.key_frame]
        assert len(keys) == 3
        with VideoReader(data, keyframes_only=True) as reader:
            frames = list(reader)
            assert [frame.pts for frame in frames] == keys
            assert all(frame.is_key for frame in frames)
            assert [frame.index for frame in frames] == [0, 1, 2]


def test_a_size_that_changes_midway(tmp_path: Path) -> None:
    path = tmp_path / "two.ts"
    first = encode(scene(5, 160, 120), container="mpegts")
    path.write_bytes(first + encode(scene(5, 96, 64), container="mpegts"))
    sizes = [(frame.width, frame.height) for frame in read(path)]
    assert sizes == [(160, 120)] * 5 + [(96, 64)] * 5
