"""Image arguments that name no image, and what is said of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import assert_error_message, endcap, write_pictures

from endcap.cli.images import describe_no_images, expand_images
from endcap.client import ImageResult


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")


def refused(argument: object, *parts: str) -> None:
    assert_error_message(endcap("infer", argument, "--url", "127.0.0.1:1"), *parts)


def test_what_does_not_exist(pictures: Path) -> None:
    refused(pictures / "bb.jpg", "bb.jpg does not exist", f"did you mean {pictures / 'b.jpg'}?")
    refused(pictures / "xyz", "xyz does not exist; check the path")
    refused(pictures / "no" / "b.jpg", f"there is no folder {pictures / 'no'}")
    refused(pictures / "b.jpg" / "c.jpg", f"there is no folder {pictures / 'b.jpg'}")
    (pictures / "link.jpg").symlink_to("gone.jpg")
    refused(pictures / "link.jpg", "it is a link to gone.jpg")
    refused(pictures / "*.png", "as a pattern matches no file")
    (pictures / "inner").mkdir()
    refused(pictures / "inn*", "matches no file, only 1 folder")


def test_what_cannot_be_looked_at(pictures: Path) -> None:
    (pictures / "loop.jpg").symlink_to("loop.jpg")
    refused(pictures / "loop.jpg", "cannot be read: Too many levels of symbolic links")
    refused(pictures / ("x" * 300), "cannot be read: File name too long")


def test_videos_are_of_infer_alone(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = pictures / "clip.MP4"
    clip.write_bytes(b"\0\0\0\x20ftypisom")

    def refused_by_load(argument: object, *parts: str) -> None:
        assert_error_message(endcap("load", argument, "--url", "127.0.0.1:1"), *parts)

    advice = "a video is read by `endcap infer` alone: take frames out of it first"
    refused_by_load(clip, f"clip.MP4 is a video by its name; {advice}", "ffmpeg")
    refused_by_load(pictures / "*.MP4", "matches videos only", "ffmpeg")
    assert expand_images([f"{pictures}/*"]) == [pictures / "a.JPEG", pictures / "b.jpg"]
    skipped = f"endcap: skipped 1 video that {pictures}/* matches: {clip}\n"
    assert capsys.readouterr().err == skipped
    for name in ("a.JPEG", "b.jpg"):
        (pictures / name).unlink()
    refused_by_load(pictures, "holds no image", f"it holds 1 video, and {advice}")


def test_a_file_of_another_type_that_the_server_rejects() -> None:
    good = ImageResult("a", "ok")
    damaged = ImageResult("b.jpg", "corrupt_image", error="damaged")
    document = ImageResult("c.pdf", "corrupt_image", error="a PDF document")
    tiff = ImageResult("d.tif", "unsupported", error="a TIFF image")
    gone = ImageResult("e.pdf", "unavailable", error="gone")
    page = ImageResult("http://host/", "unsupported", error="a page")
    assert describe_no_images([good, damaged, gone, page]) is None
    message = describe_no_images([good, damaged, document])
    assert message is not None
    assert message.startswith("c.pdf seems to be of another type than an image's: JPEG, PNG and")
    assert str(describe_no_images([document, tiff])).startswith("2 files seem to be")
