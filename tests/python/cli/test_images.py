"""Image arguments that name no image, and what is said of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.cli.images import expand_images
from tests.support.cli_runs import assert_error_message, endcap


def refused(argument: object, *parts: str) -> None:
    assert_error_message(endcap("infer", argument, "--url", "127.0.0.1:1"), *parts)


def test_what_does_not_exist(pictures: Path) -> None:
    refused(pictures / "no" / "b.jpg", "b.jpg does not exist; check the path")
    refused(pictures / "*.png", "as a pattern matches no file")
    refused("https://host/photo.jpg", "is an address: download it, for example with `curl -O`")


def test_videos_are_of_infer_alone(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = pictures / "clip.MP4"
    clip.write_bytes(b"\0\0\0\x20ftypisom")

    def refused_by_load(argument: object, *parts: str) -> None:
        assert_error_message(endcap("load", argument, "--url", "127.0.0.1:1"), *parts)

    advice = "a video is read by `endcap infer` alone: take frames out of it first"
    refused_by_load(clip, f"clip.MP4 is a video by its name; {advice}", "ffmpeg")
    refused_by_load(pictures / "*.MP4", "is a video by its name", "ffmpeg")
    assert expand_images([f"{pictures}/*"]) == [pictures / "a.JPEG", pictures / "b.jpg"]
    skipped = f"endcap: skipped 1 file of {pictures}/*: {clip}\n"
    assert capsys.readouterr().err == skipped
    for name in ("a.JPEG", "b.jpg"):
        (pictures / name).unlink()
    refused_by_load(pictures, "holds no image", f"1 of its files are videos, and {advice}")
