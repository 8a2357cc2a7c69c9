"""VideoReader with a real RTSP server: frames, connections that break, slow programs."""

from __future__ import annotations

import contextlib
import itertools
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from endcap.errors import VideoError
from endcap.video import VideoReader
from tests.support import rtsp_server
from tests.support.tcp_proxy import proxy_to
from tests.support.videos import encode, scene


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 frames, without B-frames, as cameras send them."""
    path = tmp_path_factory.mktemp("rtsp") / "clip.mp4"
    path.write_bytes(encode(scene(60), b_frames=0, options={"g": "10"}))
    return path


@pytest.fixture(scope="module")
def server(clip: Path) -> Iterator[str]:
    with rtsp_server.serving(clip) as address:
        yield address


def test_frames_of_a_camera(server: str) -> None:
    for path, codec in (("h264", "h264"), ("jpeg", "mjpeg")):
        with VideoReader(f"rtsp://{server}/{path}") as reader:
            assert reader.is_live
            assert reader.codec == codec
            assert reader.duration_s is None
            frames = list(itertools.islice(reader, 15))
            assert reader.status.state == "reading"
        assert (frames[0].width, frames[0].height) == rtsp_server.SIZE
        steps = np.diff([frame.seconds for frame in frames])
        passed = np.diff([frame.index for frame in frames])
        np.testing.assert_allclose(steps, passed / rtsp_server.RATE, rtol=0, atol=0.01)
        assert sum(frame.dropped for frame in frames[1:]) == sum(passed - 1)


def test_frames_of_a_file_by_udp_and_tcp(server: str, clip: Path) -> None:
    with VideoReader(clip) as reader:
        expected = [frame.to_rgb() for frame in reader]
    for transport in ("tcp", "udp"):
        with VideoReader(
            f"rtsp://{server}/file",
            options={"rtsp_transport": transport},
            on_full="wait",
            reconnect=False,
            timeout_s=3,
        ) as reader:
            frames = []
            with contextlib.suppress(VideoError):  # a server may end a file by silence
                frames.extend(reader)
        if transport == "tcp":
            assert len(frames) == len(expected)
            for frame, pixels in zip(frames, expected, strict=True):
                assert np.array_equal(frame.to_rgb(), pixels)
        else:  # a busy machine loses packets
            assert 0 < len(frames) <= len(expected)


def test_each_cut_of_the_connection_is_recovered_from(server: str) -> None:
    with (
        proxy_to(server) as proxy,
        VideoReader(f"rtsp://{proxy.address}/h264", reconnect_interval_s=0.05) as reader,
    ):
        last = next(reader)
        for cut in range(1, 6):
            proxy.cut()
            while reader.status.reconnects < cut:
                last = next_frame(reader, last)
            last = next_frame(reader, last)
        assert reader.status.reconnects == 5
        assert reader.status.state == "reading"
        assert proxy.connections == 6


def next_frame(reader: VideoReader, last: object) -> object:
    """The next frame, whose number and time are greater than those of the one before."""
    frame = next(reader)
    assert frame.index > last.index  # type: ignore[attr-defined]
    assert frame.seconds > last.seconds  # type: ignore[attr-defined]
    return frame


def test_a_server_that_comes_back_after_a_while(server: str) -> None:
    with proxy_to(server) as proxy:
        url = f"rtsp://me:secret@{proxy.address}/h264"
        with VideoReader(url, reconnect_interval_s=0.05) as reader:
            next(reader)
            proxy.refuse()
            wait_for_state(reader, "reconnecting")
            time.sleep(0.3)
            status = reader.status
            assert (status.state, status.reconnects) == ("reconnecting", 0)
            assert status.error is not None
            assert "secret" not in status.error
            proxy.open()
            frame = next(reader)
            while reader.status.reconnects == 0:
                frame = next(reader)
            assert frame.seconds > 0.3, "the pause counts"


def wait_for_state(reader: VideoReader, state: str) -> None:
    end = time.monotonic() + 10
    while reader.status.state != state:
        assert time.monotonic() < end, reader.status
        time.sleep(0.01)


def test_silence_is_a_broken_connection(server: str) -> None:
    with (
        proxy_to(server) as proxy,
        VideoReader(f"rtsp://{proxy.address}/h264", timeout_s=0.5, reconnect=False) as reader,
    ):
        next(reader)
        proxy.stall()
        with pytest.raises(VideoError, match=r"nothing came within 0\.5 seconds"):
            list(reader)


def test_close_does_not_wait_for_an_attempt(server: str) -> None:
    with proxy_to(server) as proxy:
        reader = VideoReader(f"rtsp://{proxy.address}/h264", reconnect_interval_s=30)
        next(reader)
        proxy.cut()
        wait_for_state(reader, "reconnecting")
        begin = time.monotonic()
        reader.close()
        assert time.monotonic() - begin < 15


def test_a_slow_program_gets_recent_frames_and_counts(server: str) -> None:
    with VideoReader(f"rtsp://{server}/h264", queue_size=2) as reader:
        numbers = []
        dropped = 0
        before = 0
        for frame in itertools.islice(reader, 12):
            numbers.append(frame.index)
            dropped += frame.dropped
            time.sleep(0.25)
            if len(numbers) == 4:
                before = resident_kib()
        assert resident_kib() - before < 8 << 10, "KiB more in two seconds"
        missing = numbers[-1] + 1 - len(numbers)
        assert missing > 40
        assert dropped == missing
        assert reader.status.dropped >= dropped


def resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
