"""Videos as arguments of endcap infer: which they are, and what is refused before anything runs."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from endcap.cli.files import MADE_BY, refuse_foreign
from endcap.cli.images import VideoInput, find_videos
from endcap.cli.infer_video import VideoSummary, video_targets
from endcap.client import ImageResult
from endcap.errors import InvalidArgumentError
from endcap.video import VideoFrame, VideoWriter
from tests.support.cli_runs import assert_error_message, endcap
from tests.support.videos import read_pictures, write_clip

NO_SERVER = "127.0.0.1:1"


@pytest.fixture(scope="module")
def shared_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", 5)


@pytest.fixture
def clip(shared_clip: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared_clip, tmp_path / "clip.mp4"))


def files(*arguments: object, recursive: bool = False) -> list[Path | None]:
    return [each.file for each in find_videos(list(map(str, arguments)), recursive=recursive)]


def test_kinds_of_files_are_recognised_by_name(clip: Path, pictures: Path, tmp_path: Path) -> None:
    assert files(clip) == [clip]
    shutil.copy(clip, tmp_path / "clip")
    for name in ("clip", "nothing.mp4", "nothing/*"):
        assert files(tmp_path / name) == []
    assert files(pictures / "a.JPEG") == []


def test_folders_and_patterns(clip: Path, pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    (folder / "below").mkdir(parents=True)
    for target in ("b.mp4", "a.mkv", "below/c.mp4"):
        shutil.copy(clip, folder / target)
    (folder / "notes.txt").write_text("no video")
    assert files(folder) == [folder / "a.mkv", folder / "b.mp4"]
    assert files(folder, recursive=True) == [
        folder / "a.mkv", folder / "b.mp4", folder / "below" / "c.mp4"
    ]  # fmt: skip
    assert files(folder / "*.m*") == [folder / "a.mkv", folder / "b.mp4"]
    shutil.copy(clip, pictures)
    assert files(pictures) == []  # images, as before
    assert files(pictures / "*") == []


def test_addresses_and_cameras() -> None:
    for address in ("rtsp://camera/1", "RTSPS://camera/1", "http://host/watch?v=a.jpg"):
        (video,) = find_videos([address])
        assert (video.name, video.source, video.file) == (address, address, None)
    (video,) = find_videos(["rtsp://me:secret@camera/1"])
    assert (video.name, video.source) == ("rtsp://camera/1", "rtsp://me:secret@camera/1")
    assert find_videos(["http://host/a.jpg", "https://host/b.webp"]) == []
    assert VideoInput("/dev/video3", "/dev/video3").stem == "video3"
    assert VideoInput("rtsp://camera/", "rtsp://camera/").stem == "video"
    assert VideoInput("rtsp://camera/door.1?x", "rtsp://camera/door.1?x").stem == "door"


def test_images_and_videos_are_not_mixed(clip: Path, pictures: Path) -> None:
    result = endcap("infer", pictures, clip, "--url", NO_SERVER)
    assert_error_message(result, f"{clip} is a video and {pictures} is not: give videos and images")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coco"], "--coco is for images only; leave it out"),
        (["--compare", "models"], "--compare is for images only"),
        (["--batch", "4"], "--batch is for images only"),
        (["--draw", "out.avi"], "annotated videos are MP4 files; give out.mp4"),
    ],
)
def test_options_that_videos_do_not_have(clip: Path, options: list[str], message: str) -> None:
    assert_error_message(endcap("infer", clip, "--url", NO_SERVER, *options), message)


def test_options_that_images_do_not_have(pictures: Path, tmp_path: Path) -> None:
    for options, message in (
        (["--every", "2"], "--every is for videos only"),
        (["--rate", "5"], "--rate is for videos only"),
        (["--rate", "0", "--track"], "--rate is 0: give frames per second, above 0"),
        (["--rate", "nan", "--track"], "--rate is nan: give frames per second"),
        (["--draw", tmp_path / "out.mp4"], "out.mp4 is the name of a file"),
    ):
        result = endcap("infer", pictures, "--url", NO_SERVER, *options)
        assert_error_message(result, message)


def test_what_is_of_one_video(clip: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(clip, tmp_path / "other.mp4"))
    result = endcap("infer", clip, other, "--url", NO_SERVER, "--draw", "out.mp4")
    assert_error_message(result, "out.mp4 is one file, and there are 2 videos; give a folder")


def test_names_of_annotated_videos(tmp_path: Path) -> None:
    inputs = [
        VideoInput("a/clip.mp4", "a/clip.mp4", Path("a/clip.mp4")),
        VideoInput("b/clip.mkv", "b/clip.mkv", Path("b/clip.mkv")),
        VideoInput("rtsp://host/door", "rtsp://host/door"),
    ]
    assert video_targets(tmp_path, inputs) == [
        tmp_path / "clip_detections.mp4",
        tmp_path / "clip_2_detections.mp4",
        tmp_path / "door_detections.mp4",
    ]
    assert video_targets(Path("out.MP4"), inputs[:1]) == [Path("out.MP4")]
    assert video_targets(None, inputs) == []


def test_only_annotated_videos_of_endcap_are_replaced(clip: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours.mp4"
    with VideoWriter(ours, comment=MADE_BY) as writer:
        for _ in range(1200):  # an index that is longer than the first bytes of other files
            writer.write(np.zeros((32, 32, 3), np.uint8))
    with ours.open("rb") as file:
        assert MADE_BY.encode() not in file.read(4096)
    refuse_foreign([ours], advice="")
    damaged = tmp_path / "damaged.mp4"
    for content in (ours.read_bytes()[:40], b"\xff\xff\xff\xffftyp", b"\0\0\0\x10ftyp"):
        damaged.write_bytes(content)
        with pytest.raises(InvalidArgumentError, match="was not created by endcap"):
            refuse_foreign([damaged], advice="")
    with pytest.raises(InvalidArgumentError, match="was not created by endcap"):
        refuse_foreign([clip], advice="")


def test_a_file_of_the_users_is_not_replaced(clip: Path, tmp_path: Path) -> None:
    recording = tmp_path / "recording.mp4"
    recording.write_bytes(b"a recording")
    link = tmp_path / "link.mp4"
    link.symlink_to(recording)
    for target, message in (
        (recording, "was not created by endcap"),
        (link, "is a symbolic link, which is not written to"),
    ):
        result = endcap("infer", clip, "--draw", target, "--url", NO_SERVER)
        assert_error_message(result, message)
        assert recording.read_bytes() == b"a recording"
    assert link.is_symlink()


@pytest.fixture
def flickering(tmp_path: Path) -> Path:
    """A video of 12 frames, of which the server rejects the white ones."""
    path = tmp_path / "flickering.mp4"
    with VideoWriter(path, frame_rate=10) as writer:
        for number in range(12):
            value = 250 if number in (3, 8) else 90
            writer.write(np.full((240, 320, 3), value, np.uint8))
    return path


def test_a_frame_that_fails_does_not_end_the_video(
    urls: dict[str, str], flickering: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "drawn.mp4"
    arguments = ["--url", urls["grpc"], "--track", "--json", "--draw", drawn]
    result = endcap("infer", flickering, *arguments)
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["frame_index"] for row in rows] == list(range(12))
    failed = {row["frame_index"]: row["error"] for row in rows if row["status"] != "ok"}
    assert failed == dict.fromkeys((3, 8), "image 0 is not a JPEG")
    for row in rows:
        ids = [each.get("track_id") for each in row["detections"]]
        assert ids == ([] if row["frame_index"] in failed else [1, 2])
    assert result.stderr == (
        f"12 frames in {drawn}\nendcap: 2 of 12 frames of {flickering} failed, first frame 3 "
        "(corrupt_image: image 0 is not a JPEG)\n"
    )
    pictures = read_pictures(drawn)
    assert len(pictures) == 12
    has_boxes = [np.count_nonzero(np.ptp(picture, axis=2) > 60) > 200 for picture in pictures]
    assert has_boxes == [number not in failed for number in range(12)]


def test_failed_frames_in_rows_and_in_the_summary(urls: dict[str, str], flickering: Path) -> None:
    arguments = ["infer", flickering, "--url", urls["grpc"], "--every", 3]
    rows = list(csv.DictReader(io.StringIO(endcap(*arguments, "--csv").stdout)))
    assert [(row["frame_index"], row["status"], row["label"]) for row in rows] == [
        ("0", "ok", "square"), ("0", "ok", ""), ("3", "corrupt_image", ""),
        ("6", "ok", "square"), ("6", "ok", ""), ("9", "ok", "square"), ("9", "ok", ""),
    ]  # fmt: skip
    summary = endcap(*arguments).stdout.splitlines()
    assert summary[-1] == "  6 detections, 1 frame failed: 3 square, 3 class 7"


def test_a_signal_ends_a_video_with_its_summary(
    urls: dict[str, str], clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = VideoSummary.add

    def add_and_interrupt(summary: VideoSummary, frame: VideoFrame, result: ImageResult) -> None:
        add(summary, frame, result)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(VideoSummary, "add", add_and_interrupt)
    result = endcap("infer", clip, "--url", urls["grpc"])
    assert result.exit_code == 130
    assert "  1 frame in " in result.stdout
    assert "interrupted after 1 frame\n" in result.stderr
