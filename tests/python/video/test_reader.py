"""VideoReader: sources, sampling, the queue, limits, ends, and what FFmpeg may open."""

from __future__ import annotations

import functools
import gc
import io
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from endcap.errors import InvalidArgumentError, VideoError
from endcap.video import VideoReader
from tests.support.http_site import Site, content, redirect, run_site
from tests.support.videos import encode, scene


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    wait_for(lambda: not reader_threads(), "threads of readers are left")


@pytest.fixture(scope="module")
def clip() -> bytes:
    """50 frames at 25 frames a second."""
    return encode(scene(50, 64, 48))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reader_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("endcap video ")]


def wait_for(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def indices(frames: Any) -> list[int]:
    return [frame.index for frame in frames]


# What it says of a source


def test_properties_and_status(clip: bytes, folder: Path) -> None:
    Path("clip.mp4").write_bytes(clip)
    with VideoReader("clip.mp4") as reader:
        assert reader.name == "clip.mp4"
        assert reader.codec == "h264"
        assert (reader.width, reader.height) == (64, 48)
        assert reader.frame_rate == 25
        assert reader.duration_s == 2.0
        assert not reader.is_live
        assert reader.status.state == "reading"
        before = time.time()
        frames = list(reader)
        assert all(before - 60 < frame.wall_time <= time.time() for frame in frames)
        assert indices(frames) == list(range(50))
    status = reader.status
    assert (status.state, status.decoded, status.error) == ("ended", 50, None)
    assert (status.sampled_out, status.dropped, status.damaged, status.reconnects) == (0, 0, 0, 0)
    assert next(reader, None) is None


def test_a_file_object_of_any_kind(clip: bytes) -> None:
    class OnlyReads:
        def __init__(self) -> None:
            self.file = io.BytesIO(data)

        def read(self, size: int) -> bytes:
            return self.file.read(min(size, 1000))

    for container, data in (
        ("mp4", clip),
        ("mpegts", encode(scene(9, 64, 48), container="mpegts")),
    ):
        with VideoReader(io.BytesIO(data)) as reader:
            assert len(list(reader)) == (50 if container == "mp4" else 9)
    with VideoReader(OnlyReads()) as reader:
        assert len(list(reader)) == 9


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nothing.mp4", FileNotFoundError, "nothing.mp4"),
        (Path("nothing.mp4"), FileNotFoundError, "nothing.mp4"),
        (".", InvalidArgumentError, "is not a file"),
        (9_999, FileNotFoundError, "/dev/video9999"),
        ("/dev/video9999", FileNotFoundError, "/dev/video9999"),
        (-1, InvalidArgumentError, "camera's number"),
        (True, InvalidArgumentError, "camera's number"),
        (1.5, InvalidArgumentError, "of type float"),
        (
            "ftp://user:secret@host/x.mp4",
            InvalidArgumentError,
            "ftp://host/x.mp4 has the scheme ftp",
        ),
        ("file:///etc/passwd", InvalidArgumentError, "has the scheme file"),
        ("concat:a.mp4|b.mp4", FileNotFoundError, "concat"),
        ("data:video/mp4;base64,AAAA", FileNotFoundError, "data"),
        (b"", VideoError, "it is empty"),
        (b"no video at all " * 100, VideoError, "not a video of a supported format"),
    ],
)
def test_sources_that_cannot_be_opened(
    source: Any, error: type[Exception], message: str, folder: Path
) -> None:
    with pytest.raises(error, match=message):
        VideoReader(source)


def test_a_file_without_video() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="wav") as output:
        stream: Any = output.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), "s16", "mono")
        frame.rate = 8000
        output.mux(stream.encode(frame))
    with pytest.raises(VideoError, match="not a video"):
        VideoReader(file.getvalue())
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        stream = output.add_stream("pcm_s16le", rate=8000)
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    with pytest.raises(VideoError, match="holds no video"):
        VideoReader(file.getvalue())


def test_a_file_with_sound(clip: bytes) -> None:
    file = io.BytesIO()
    with av.open(io.BytesIO(clip)) as source, av.open(file, "w", format="mp4") as output:
        sound: Any = output.add_stream("aac", rate=8000, layout="mono")
        video: Any = output.add_stream_from_template(source.streams.video[0])
        for second in range(2):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.float32), "fltp", "mono")
            frame.rate, frame.pts = 8000, second * 8000
            output.mux(sound.encode(frame))
        output.mux(sound.encode(None))
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = video
                output.mux(packet)
    with VideoReader(file.getvalue()) as reader:
        assert indices(reader) == list(range(50))
    assert reader.status.damaged == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate is 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": 5, "every": 2}, "give one of them"),
        ({"every": 0}, "every is 0"),
        ({"queue_size": 0}, "queue_size is 0"),
        ({"on_full": "explode"}, "on_full is 'explode': give one of wait, drop_oldest"),
        ({"threads": -1}, "threads is -1"),
        ({"max_pixels": 0}, "max_pixels is 0"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"reconnect_interval_s": 0}, "reconnect_interval_s is 0"),
        ({"reconnect": True}, "reconnect is for addresses"),
    ],
)
def test_parameters_that_cannot_be_used(clip: bytes, options: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        VideoReader(clip, **options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, clip: bytes) -> None:
    for name in [each for each in sys.modules if each == "av" or each.startswith("av.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(VideoError, match=r"a video takes av, .* run `pip install"):
        VideoReader(clip)


# Sampling


def test_every_so_many() -> None:
    data = encode(scene(20, 64, 48))
    with VideoReader(data, every=6) as reader:
        assert indices(reader) == [0, 6, 12, 18]
    assert (reader.status.decoded, reader.status.sampled_out) == (20, 16)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (5, range(0, 50, 5)),
        (25, range(50)),
        (60, range(50)),
        (12.5, range(0, 50, 2)),
        (1, (0, 25)),
        (0.01, (0,)),
        (10, (0, 2, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 30, 32, 35, 37, 40, 42, 45, 47)),
    ],
)
def test_so_many_a_second(clip: bytes, rate: float, expected: Any) -> None:
    with VideoReader(clip, rate=rate) as reader:
        assert indices(reader) == list(expected)
    assert reader.status.sampled_out == 50 - len(list(expected))


def test_rounded_time_stamps_do_not_lose_frames() -> None:
    times = [round(number * 1000 / 30) for number in range(60)]  # as Matroska has them
    data = encode(scene(60, 64, 48), container="matroska", times_ms=times, rate=30)
    for rate, step in ((30, 1), (15, 2), (10, 3)):
        with VideoReader(data, rate=rate) as reader:
            assert indices(reader) == list(range(0, 60, step))


def test_rate_of_a_variable_frame_rate() -> None:
    times = [0, 10, 20, 500, 990, 1500, 1510, 4000]
    data = encode(scene(8, 64, 48), container="matroska", times_ms=times, rate=100)
    with VideoReader(data, rate=1) as reader:
        assert [frame.seconds for frame in reader] == [0.0, 1.5, 4.0]


# The queue


def filled(reader: VideoReader, count: int) -> None:
    wait_for(lambda: reader.status.decoded == count, "the frames are not decoded")
    wait_for(lambda: reader.status.state == "ended", "the file does not end")


@pytest.mark.parametrize(("size", "expected"), [(1, [49]), (4, [46, 47, 48, 49])])
def test_the_oldest_are_dropped(clip: bytes, size: int, expected: list[int]) -> None:
    with VideoReader(clip, queue_size=size, on_full="drop_oldest") as reader:
        filled(reader, 50)
        frames = list(reader)
        assert indices(frames) == expected
        assert [frame.dropped for frame in frames] == [50 - size] + [0] * (size - 1)
        assert reader.status.dropped == 50 - size


def test_files_are_waited_for(clip: bytes) -> None:
    with VideoReader(clip, queue_size=3) as reader:
        time.sleep(0.2)
        # Those of the queue, and one that waits for room.
        assert reader.status.decoded <= 4
        assert indices(reader) == list(range(50))
        assert reader.status.dropped == 0


def test_several_threads_share_the_frames(clip: bytes) -> None:
    taken: list[int] = []
    with VideoReader(clip) as reader:

        def take() -> None:
            for frame in reader:
                taken.append(frame.index)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(taken) == list(range(50))


# Ends


def test_close_in_the_middle_of_anything(clip: bytes) -> None:
    for number in range(60):
        reader = VideoReader(clip, queue_size=1 + number % 3)
        for _ in range(number % 7):
            next(reader)
        time.sleep((number % 5) / 1000)
        reader.close()
        assert not reader_threads()


def test_a_reader_that_nobody_holds_ends_its_thread(clip: bytes) -> None:
    reader = VideoReader(clip, queue_size=1)
    next(reader)
    del reader
    gc.collect()
    wait_for(lambda: not reader_threads(), "the thread is left")


def test_a_program_ends_with_an_open_reader(clip: bytes, folder: Path) -> None:
    Path("clip.mp4").write_bytes(clip)
    program = (
        "from endcap.video import VideoReader\n"
        "reader = VideoReader('clip.mp4', queue_size=1)\n"
        "print(next(reader).index)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_frames_outlive_the_reader(clip: bytes) -> None:
    with VideoReader(clip) as reader:
        frames = list(itertools.islice(reader, 8))
    pixels = [frame.to_rgb() for frame in frames]
    del reader
    gc.collect()
    for frame, before in zip(frames, pixels, strict=True):
        assert np.array_equal(frame.to_rgb(), before)
    assert not np.array_equal(pixels[0], pixels[7])


def test_frames_are_freed_without_the_garbage_collector() -> None:
    def held() -> int:
        return sum(isinstance(each, av.VideoFrame) for each in gc.get_objects())

    for rotation in (0, 90):
        data = encode(scene(100, 64, 48), rotation=rotation)
        gc.collect()
        before = held()
        gc.disable()
        try:
            with VideoReader(data) as reader:
                assert len([frame.index for frame in reader]) == 100
            assert held() - before <= 2
        finally:
            gc.enable()


# Limits


def test_frames_beyond_the_limit_are_refused() -> None:
    data = encode(scene(3, 160, 120))
    with pytest.raises(VideoError, match=r"160x120 = 19200 pixels; max_pixels allows 19199"):
        VideoReader(data, max_pixels=160 * 120 - 1)
    with VideoReader(data, max_pixels=160 * 120) as reader:
        assert len(list(reader)) == 3


@pytest.mark.parametrize("container", ["mpegts", "h264"])
def test_frames_that_grow_beyond_the_limit_are_damage(container: str) -> None:
    small = encode(scene(150, 64, 48), container=container)
    large = encode(scene(5, 320, 240), container=container)
    with VideoReader(small + large, max_pixels=64 * 64) as reader:
        frames = list(reader)
    assert {(frame.width, frame.height) for frame in frames} == {(64, 48)}
    assert reader.status.damaged > 0
    assert reader.status.error is not None


# What FFmpeg may open


def playlists(target: str) -> dict[str, str]:
    """Files that name another one, and have no frames themselves."""
    segment = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n#EXT-X-ENDLIST\n"
    return {
        "list.m3u8": segment,
        "list.mp4": segment,
        "list.ffconcat": f"ffconcat version 1.0\nfile {target}\n",
        "list.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        "m=video 5006 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
        "list.mpd": '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
        '<AdaptationSet mimeType="video/mp4"><Representation id="1"><BaseURL>'
        f"{target}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    }


@pytest.fixture
def secret(folder: Path) -> Path:
    """A video that only the user of the machine is to read."""
    path = folder / "secret.ts"
    path.write_bytes(encode(scene(5, 64, 48), container="mpegts"))
    return path


@pytest.mark.parametrize("name", playlists(""))
def test_files_do_not_lead_to_other_files(name: str, secret: Path) -> None:
    for target in (
        secret.name,
        f"file:{secret}",
        f"file://{secret}",
        f"subfile,,start,0,end,0,,:{secret}",
    ):
        text = playlists(target)[name]
        Path(name).write_text(text, encoding="utf-8")
        for source in (name, text.encode(), io.BytesIO(text.encode())):
            with pytest.raises(VideoError, match="not a video of a supported format"):
                VideoReader(source, timeout_s=5)


def test_the_lists_would_lead_to_the_file(secret: Path) -> None:
    # By FFmpeg's own settings they do: the test above is of no use otherwise.
    for name in ("list.m3u8", "list.ffconcat"):
        Path(name).write_text(playlists(secret.name)[name], encoding="utf-8")
        with av.open(name) as container:
            assert len(list(container.decode(video=0))) == 5


def test_names_mean_nothing_to_ffmpeg(clip: bytes, folder: Path) -> None:
    for name in ("concat:a|b", "http:x", "-", "pipe:0", "a%03d.mp4", "x?y=z#f", "data:,x", "a b\n"):
        Path(name).write_bytes(clip)
        with VideoReader(name) as reader:
            assert len(list(reader)) == 50


@pytest.fixture
def site() -> Iterator[Site]:
    with run_site() as running:
        yield running


def test_a_file_by_http(site: Site, clip: bytes) -> None:
    site.paths["/clip.mp4"] = lambda handler: content(handler, body=clip)
    site.paths["/moved"] = redirect("/clip.mp4")
    for path in ("/clip.mp4", "/moved"):
        with VideoReader(site.url(path)) as reader:
            assert not reader.is_live
            assert len(list(reader)) == 50
    with pytest.raises(VideoError, match="404"):
        VideoReader(site.url("/nothing.mp4"))


def test_a_playlist_by_http(site: Site, secret: Path) -> None:
    playlist = playlists("part.ts")["list.m3u8"].encode()
    site.paths["/list.m3u8"] = lambda handler: content(handler, body=playlist)
    site.paths["/part.ts"] = lambda handler: content(handler, body=secret.read_bytes())
    with VideoReader(site.url("/list.m3u8")) as reader:
        assert not reader.is_live
        assert len(list(reader)) == 5


def test_addresses_do_not_lead_to_files(site: Site, secret: Path) -> None:
    site.paths["/file"] = redirect(f"file://{secret}")
    for name, text in playlists(f"file://{secret}").items():
        site.paths[f"/{name}"] = functools.partial(content, body=text.encode())
    for path in site.paths:
        with pytest.raises(VideoError), VideoReader(site.url(path), timeout_s=5) as reader:
            next(reader)
    assert {*site.requested} >= {*site.paths}


def test_a_password_is_in_no_message() -> None:
    with pytest.raises(VideoError) as caught:
        VideoReader("http://user:secret@127.0.0.1:1/x.mp4")
    assert "secret" not in str(caught.value)
    assert "http://127.0.0.1:1/x.mp4 cannot be opened: Connection refused" in str(caught.value)
