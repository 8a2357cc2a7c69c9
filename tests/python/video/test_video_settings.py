"""Parameters of the model `video`, and options of its requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from endcap.errors import InvalidArgumentError
from endcap.video.settings import (
    VideoOptions,
    VideoSettings,
    read_video_options,
    read_video_settings,
)


def settings(name: str = "video", **parameters: str) -> VideoSettings:
    values = {each: {"string_value": value} for each, value in parameters.items()}
    return read_video_settings({"name": name, "parameters": values})


def test_defaults() -> None:
    assert settings(labels="a,b", optional="true") == VideoSettings()


def test_every_parameter() -> None:
    read = settings(
        model="other",
        max_videos="2",
        frames_in_flight="3",
        max_frames="4",
        max_seconds="5",
        max_file_bytes="6",
        timeout_s="7",
        decode_threads="0",
    )
    assert read == VideoSettings(
        model="other",
        max_videos=2,
        frames_in_flight=3,
        max_frames=4,
        max_seconds=5,
        max_file_bytes=6,
        timeout_s=7,
        decode_threads=0,
    )


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"max_video": "1"}, "'max_video' is not a parameter"),
        ({"max_videos": "0"}, "max_videos is 0"),
        ({"max_frames": "-1"}, "max_frames is '-1'"),
        ({"model": ""}, "model is empty"),
        ({"model": "video"}, "which is this model"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, str], part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        settings(**parameters)


@pytest.mark.parametrize("text", [None, b"", "", b"{}"])
def test_options_may_be_missing(text: Any) -> None:
    assert read_video_options(text) == VideoOptions()


def test_every_option() -> None:
    given = {
        "rate": 5,
        "keyframes_only": True,
        "track": False,
        "frame_rate": 12.5,
        "score_threshold": 0.5,
        "max_frames": 7,
    }
    assert read_video_options(json.dumps(given).encode()) == VideoOptions(**given)  # type: ignore[arg-type]
    assert read_video_options('{"every": 3}') == VideoOptions(every=3)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"\xff", "options are not JSON"),
        ("[" * 100_000, "options are not JSON"),
        ("[]", "not a JSON object"),
        ('{"evry": 2}', "option 'evry' does not exist; give rate, every"),
        ('{"reconnect": true}', "option 'reconnect' does not exist"),
        ('{"every": 0}', "option every is 0: give a whole number"),
        ('{"every": 1.5}', r"option every is 1\.5"),
        ('{"every": true}', "option every is true"),
        ('{"rate": 0}', "option rate is 0: give frames a second"),
        ('{"rate": NaN}', "option rate is NaN"),
        ('{"rate": 1e999}', "option rate is Infinity"),
        ('{"rate": "5"}', "option rate is "),
        ('{"rate": 5, "every": 2}', "both rate and every"),
        ('{"track": 1}', "option track is 1: give true or false"),
        ('{"score_threshold": 2}', "from 0 to 1"),
        ('{"max_frames": -1}', "option max_frames is -1"),
    ],
)
def test_wrong_options_are_refused(text: Any, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        read_video_options(text)
