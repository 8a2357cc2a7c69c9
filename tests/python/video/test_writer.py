"""MP4 files of pictures with times, read again by PyAV."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import endcap
from endcap.errors import InvalidArgumentError, VideoError
from endcap.video import VideoWriter
from tests.support import tolerances

WIDTH, HEIGHT = 320, 240


def picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A picture with a square that moves; its colours are smooth, which no codec changes much."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = (200, 40, 90)
    pixels[20:60, 10 + 4 * number : 50 + 4 * number] = (30, 180, 220)
    return pixels


def read(path: Path) -> tuple[list[float], list[NDArray[np.uint8]], Any]:
    """The times and pictures of a file, and the name, duration and metadata of its video."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        times = [float(frame.pts * frame.time_base) for frame in frames]
        about = {
            "codec": stream.codec_context.name,
            "size": (stream.width, stream.height),
            "seconds": stream.duration and float(stream.duration * stream.time_base),
            "format": stream.codec_context.pix_fmt,
            "colors": (frames[0].colorspace, frames[0].color_range),
            "metadata": container.metadata,
        }
        return times, [frame.to_ndarray(format="rgb24") for frame in frames], about


def boxes(path: Path) -> list[str]:
    """The names of the outermost parts of an MP4 file."""
    content, names, position = path.read_bytes(), [], 0
    while position < len(content):
        names.append(content[position + 4 : position + 8].decode())
        position += int.from_bytes(content[position : position + 4], "big")
    return names


def test_pictures_and_times_come_back(tmp_path: Path) -> None:
    times = [0.0, 0.04, 0.1, 0.5, 0.52, 1.5, 1.54]  # of a camera that is not regular
    with VideoWriter(tmp_path / "clip.mp4", frame_rate=25) as writer:
        for number, seconds in enumerate(times):
            writer.write(picture(number), seconds)
        assert not (tmp_path / "clip.mp4").exists()
        assert writer.pictures == 7
    read_times, pictures, about = read(tmp_path / "clip.mp4")
    assert read_times == pytest.approx(times, abs=1e-5)
    assert about["codec"] == "h264"
    assert about["format"] == "yuv420p"
    assert about["size"] == (WIDTH, HEIGHT)
    assert about["seconds"] == pytest.approx(1.54 + 0.04)
    assert about["colors"] == (1, 1)  # BT.709, limited range
    assert len(pictures) == 7
    for number, pixels in enumerate(pictures):
        difference = np.abs(pixels.astype(int) - picture(number))
        assert difference.mean() < tolerances.VIDEO_MEAN
        assert difference[70:].max() <= tolerances.VIDEO_FLAT
    assert list(tmp_path.iterdir()) == [tmp_path / "clip.mp4"]


def test_the_index_lies_at_the_beginning(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4", comment="of a test") as writer:
        for number in range(5):
            writer.write(picture(number))
    names = boxes(tmp_path / "clip.mp4")
    assert names.index("moov") < names.index("mdat")
    assert read(tmp_path / "clip.mp4")[2]["metadata"]["comment"] == "of a test"


def test_times_follow_the_frame_rate_where_none_are_given(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4", frame_rate=30000 / 1001) as writer:
        for number in range(40):
            writer.write(picture(number))
    times, _, about = read(tmp_path / "clip.mp4")
    exact = [float(Fraction(number * 1001, 30000)) for number in range(40)]
    assert times == pytest.approx(exact, abs=1e-5)
    assert about["seconds"] == pytest.approx(40 * 1001 / 30000, abs=1e-3)


def test_times_that_do_not_rise_are_put_right_after_the_one_before(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4") as writer:
        for seconds in (0.0, 0.5, 0.5, 0.2, 0.6):
            writer.write(picture(0), seconds)
    tick = 1 / 90_000
    assert read(tmp_path / "clip.mp4")[0] == pytest.approx(
        [0, 0.5, 0.5 + tick, 0.5 + 2 * tick, 0.6], abs=tick / 10
    )


@pytest.mark.parametrize(("width", "height"), [(321, 240), (320, 241), (33, 17), (1, 1)])
def test_odd_sides_are_padded(tmp_path: Path, width: int, height: int) -> None:
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = (200, 40, 90)
    with VideoWriter(tmp_path / "clip.mp4") as writer:
        writer.write(pixels)
    _, (read_pixels,), about = read(tmp_path / "clip.mp4")
    assert about["size"] == (width + width % 2, height + height % 2)
    assert np.abs(read_pixels.astype(int) - (200, 40, 90)).max() <= tolerances.VIDEO_FLAT


def test_pictures_of_another_size_are_stretched(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4") as writer:
        writer.write(picture(0))
        writer.write(np.full((480, 120, 3), 200, np.uint8))
    _, pictures, about = read(tmp_path / "clip.mp4")
    assert about["size"] == (WIDTH, HEIGHT)
    assert np.abs(pictures[1].astype(int) - 200).max() <= tolerances.VIDEO_FLAT


def test_an_interrupted_block_leaves_a_video_that_plays(tmp_path: Path) -> None:
    class InterruptedError(BaseException):
        pass

    def write_until_interrupted() -> None:
        with VideoWriter(tmp_path / "clip.mp4") as writer:
            for number in range(12):
                writer.write(picture(number))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write_until_interrupted()
    assert len(read(tmp_path / "clip.mp4")[0]) == 12


def test_what_was_there_stays_without_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"precious")
    with VideoWriter(path):
        pass
    assert path.read_bytes() == b"precious"
    with VideoWriter(path) as writer:
        writer.write(picture(0))
    with pytest.raises(VideoError, match=r"the writer of .*clip.mp4 is closed"):
        writer.write(picture(0))
    assert len(read(path)[0]) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_pieces_plays_when_its_program_is_killed(tmp_path: Path) -> None:
    program = (
        "import numpy as np, os, signal\n"
        "from endcap.video import VideoWriter\n"
        f"writer = VideoWriter({str(tmp_path / 'clip.mp4')!r}, in_pieces=True)\n"
        "for number in range(600):\n"
        "    writer.write(np.full((48, 64, 3), number % 256, np.uint8))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    (partial,) = tmp_path.iterdir()
    assert partial.name.startswith(".endcap-")
    assert 250 <= len(read(partial)[0]) <= 600


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"precious")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))  # more is an error of write()
    try:
        writer = VideoWriter(path)
        with pytest.raises(OSError, match="File too large") as raised:  # noqa: PT012
            for _ in range(100):
                writer.write(noise)
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["clip.mp4"]


@pytest.mark.parametrize(
    ("pixels", "seconds", "message"),
    [
        (np.zeros((4, 4), np.uint8), 0, r"a picture is uint8 \[4, 4\]: give RGB pixels"),
        (np.zeros((4, 4, 3), np.float32), 0, "a picture is float32"),
        (np.zeros((0, 4, 3), np.uint8), 0, "give RGB pixels"),
        (np.zeros((2, 16_386, 3), np.uint8), 0, "16386 x 2: shrink it to sides of at most 16384"),
        (picture(0), -0.1, "seconds is -0.1: give a time from 0 on"),
        (picture(0), float("nan"), "seconds is nan"),
        (picture(0), float("inf"), "seconds is inf"),
    ],
)
def test_pictures_and_times_that_are_refused(
    tmp_path: Path, pixels: Any, seconds: float, message: str
) -> None:
    with (
        VideoWriter(tmp_path / "clip.mp4") as writer,
        pytest.raises(endcap.InvalidArgumentError, match=message),
    ):
        writer.write(pixels, seconds)
    assert not list(tmp_path.iterdir())


def test_files_and_rates_that_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in (
        (tmp_path, "it is a folder"),
        (pipe, "is a pipe or a device"),
        (Path("/dev/null"), "is a pipe or a device"),
        (tmp_path / "none" / "clip.mp4", "No such file"),
    ):
        with pytest.raises(endcap.InvalidArgumentError, match=message):
            VideoWriter(path)
    for rate in (0, -1, 1001, float("nan")):
        with pytest.raises(endcap.InvalidArgumentError, match="frame_rate is"):
            VideoWriter(tmp_path / "clip.mp4", frame_rate=rate)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_is_refused_on_request(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "clip.mp4").symlink_to(tmp_path / "victim")
    with pytest.raises(InvalidArgumentError, match="is a symbolic link"):
        VideoWriter(tmp_path / "clip.mp4", follow_links=False)
    assert (tmp_path / "victim").read_text() == "precious"
