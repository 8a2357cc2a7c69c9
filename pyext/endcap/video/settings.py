"""Parameters of the model `video`, and the options of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from endcap.errors import InvalidArgumentError
from endcap.triton.parameters import parse_count, read_parameters

MAX_RATE = 1000.0  # frames a second


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
    """

    rate: float | None = None
    every: int = 1
    keyframes_only: bool = False
    track: bool = True
    frame_rate: float | None = None
    score_threshold: float = 0.0
    max_frames: int | None = None


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
            f'options are not JSON ({error}); give an object, such as {{"every": 2}}'
        ) from error
    if not isinstance(given, dict):
        raise InvalidArgumentError('options are not a JSON object; give one, such as {"every": 2}')
    for name, value in given.items():
        if name not in _OPTIONS:
            raise InvalidArgumentError(
                f"option '{name[:100]}' does not exist; give {', '.join(_OPTIONS)}"
            )
        types, is_allowed, expected = _OPTIONS[name]
        if type(value) not in types or not is_allowed(value):
            shown = json.dumps(value)[:100]
            raise InvalidArgumentError(f"option {name} is {shown}: give {expected}")
    options = VideoOptions(**given)
    if options.rate is not None and options.every != 1:
        raise InvalidArgumentError("options have both rate and every: give one of them")
    return options


# Of each option the types in JSON, whether a value of these is allowed, and what to give instead.
_Rule: TypeAlias = tuple[tuple[type, ...], Callable[[Any], bool], str]
_FLAG: _Rule = ((bool,), lambda _: True, "true or false")
_COUNT: _Rule = ((int,), lambda value: 0 < value < 2**31, "a whole number of 1 or more")
_RATE: _Rule = (
    (int, float),
    lambda value: 0 < value <= MAX_RATE,
    f"frames a second, above 0, up to {MAX_RATE:g}",
)
_OPTIONS = {
    "rate": _RATE,
    "every": _COUNT,
    "keyframes_only": _FLAG,
    "track": _FLAG,
    "frame_rate": _RATE,
    "score_threshold": ((int, float), lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    "max_frames": _COUNT,
}
