"""Videos as arguments of a client, and the inputs of their requests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from endcap.client.calls import InputTensor
from endcap.client.images import read_file
from endcap.errors import InvalidArgumentError

Video = bytes | bytearray | memoryview | str | os.PathLike[str]
_CAMERA = "camera:"


def video_name(video: Video) -> str:
    """Return a video's name in its results: its path or URL, else "video"."""
    return os.fspath(video) if isinstance(video, (str, os.PathLike)) else "video"


def video_inputs(video: Video, options: Mapping[str, object] | None) -> list[InputTensor]:
    """Return the inputs of the request for a video; a file is read.

    Raises:
        InvalidArgumentError: Options that are no JSON.
        RequestError: A file that cannot be read.
    """
    if isinstance(video, str) and ("://" in video or video.startswith(_CAMERA)):
        inputs = [_element("source", video.removeprefix(_CAMERA).encode())]
    elif isinstance(video, (str, os.PathLike)):
        inputs = [_element("encoded", read_file(Path(video)))]
    else:
        inputs = [_element("encoded", bytes(video))]
    if options:
        inputs.append(_element("options", check_options(options)))
    return inputs


def check_options(options: Mapping[str, object] | None) -> bytes:
    """Return options as JSON.

    Raises:
        InvalidArgumentError: They cannot be written so.
    """
    try:
        return json.dumps(dict(options or {}), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"options cannot be written as JSON ({error}); give numbers, texts, True and False"
        ) from error


def _element(name: str, content: bytes) -> InputTensor:
    element = np.empty(1, np.object_)
    element[0] = content
    return InputTensor.of(name, element)
