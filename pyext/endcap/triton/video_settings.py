"""Parameters of the model `video`, and the options of its requests."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.triton.parameters import parse_count, read_parameters

_MAX_RATE = 1000.0  # frames a second
_ON_FULL = ("wait", "drop_oldest")


@dataclass(frozen=True, kw_only=True)
class VideoSettings:
    """Settings of a model that reads videos.

    Args:
        model: the model with the input ``encoded`` and detections as its outputs, which gets each
            frame.
        max_videos: the most requests at a time; others are refused.
        frames_in_flight: the most frames of one video that are detected at a time.
        max_frames: the most frames of one video that are detected; the video then ends.
        max_seconds: the longest that a request may take; the video then ends.
        max_file_bytes: the largest file.
        timeout_s: how long a frame is repeated that the model refuses because it has too much work.
        decode_threads: threads that decode one video; 0 leaves it to FFmpeg.
    """

    model: str = "detect"
    max_videos: int = 8
    frames_in_flight: int = 4
    max_frames: int = 1_000_000
    max_seconds: int = 86_400
    max_file_bytes: int = 1 << 30
    timeout_s: int = 10
    decode_threads: int = 1


_COUNTS = {each.name for each in fields(VideoSettings) if each.type == "int"}


def read_video_settings(model_config: Mapping[str, Any]) -> VideoSettings:
    """Read the parameters of a config.pbtxt, given in JSON's terms.

    Raises:
        InvalidArgumentError: a parameter that is not known, or that cannot be what it is, as the
            model's own name for the one that it calls.
    """
    known = [each.name for each in fields(VideoSettings)]
    given = read_parameters(model_config, [*known, "labels"])
    given.pop("labels", None)  # of the detections, for clients
    values: dict[str, Any] = dict(given)
    for name in [each for each in given if each in _COUNTS]:
        values[name] = parse_count(name, given[name])
        if values[name] == 0 and name != "decode_threads":
            raise InvalidArgumentError(f"{name} is 0: give 1 or more")
    settings = VideoSettings(**values)
    if not settings.model:
        raise InvalidArgumentError("model is empty: give the name of a model of the repository")
    if settings.model == model_config.get("name"):
        raise InvalidArgumentError(
            f"model names '{settings.model}', which is this model: name the one that detects"
        )
    return settings


@dataclass(frozen=True, kw_only=True)
class VideoOptions:
    """Options of one request, members of the JSON object in its input ``options``.

    Args:
        rate: frames a second, by their time stamps; the others are left out.
        every: N takes one frame in N.
        keyframes_only: whether only key frames are decoded.
        track: whether detections get ids of tracks.
        frame_rate: frames a second for the tracker; None takes that of the frames.
        score_threshold: detections of a lower score are left out, before the tracker.
        max_frames: the most frames; the model's own limit holds as well.
        on_full: what happens to frames that the model is too slow for: "wait", as None does, or
            "drop_oldest".
    """

    rate: float | None = None
    every: int = 1
    keyframes_only: bool = False
    track: bool = True
    frame_rate: float | None = None
    score_threshold: float = 0.0
    max_frames: int | None = None
    on_full: str | None = None


def read_video_options(text: bytes | str | None) -> VideoOptions:
    """Read the input ``options`` of a request; None is a request without it.

    Raises:
        InvalidArgumentError: no JSON object, a member that is not known, or an impossible value.
    """
    if not text:
        return VideoOptions()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f'options are no JSON ({error}): give an object, as {{"every": 2}}'
        ) from error
    if not isinstance(given, dict):
        raise InvalidArgumentError('options are no JSON object: give one, as {"every": 2}')
    for name, value in given.items():
        if name not in _OPTIONS:
            similar = difflib.get_close_matches(name, _OPTIONS, 1)
            meant = f"; did you mean '{similar[0]}'?" if similar else ""
            raise InvalidArgumentError(
                f"options have '{name[:100]}', which is none: there are {', '.join(_OPTIONS)}"
                f"{meant}"
            )
        expected, is_allowed = _OPTIONS[name]
        if not is_allowed(value):
            shown = json.dumps(value)[:100]
            raise InvalidArgumentError(f"option {name} is {shown}: give {expected}")
    options = VideoOptions(**given)
    if options.rate is not None and options.every != 1:
        raise InvalidArgumentError("options have both rate and every: give one of them")
    return options


def _is_number(value: Any, types: tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


# What each option may be, and whether a value is that.
_FLAG = ("true or false", lambda value: isinstance(value, bool))
_COUNT = (
    "a whole number of 1 or more",
    lambda value: _is_number(value, (int,)) and 0 < value < 2**31,
)
_RATE = (
    f"frames a second, above 0, up to {_MAX_RATE:g}",
    lambda value: _is_number(value) and 0 < value <= _MAX_RATE,
)
_OPTIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "rate": _RATE,
    "every": _COUNT,
    "keyframes_only": _FLAG,
    "track": _FLAG,
    "frame_rate": _RATE,
    "score_threshold": (
        "a number from 0 to 1",
        lambda value: _is_number(value) and 0 <= value <= 1,
    ),
    "max_frames": _COUNT,
    "on_full": (f"one of {', '.join(_ON_FULL)}", lambda value: value in _ON_FULL),
}
