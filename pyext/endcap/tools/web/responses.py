"""Responses of the page's server: results and errors, as JSON with an HTTP status."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from endcap.client import ImageResult
from endcap.drawing.draw import class_color
from endcap.drawing.orientation import oriented_size
from endcap.errors import Status

_HTTP_STATUS = {
    Status.OK.label: 200,
    Status.CORRUPT_IMAGE.label: 422,
    Status.IMAGE_LIMIT.label: 422,
    Status.UNSUPPORTED.label: 422,
    Status.INVALID_ARGUMENT.label: 422,
    Status.OUT_OF_MEMORY.label: 503,
    "unavailable": 503,
    "cancelled": 503,
    "timeout": 504,
}
_TRITON_FAILED = 502

_dumps = functools.partial(json.dumps, allow_nan=False)


def result_response(result: ImageResult, encoded: bytes) -> web.Response:
    """Return ImageResult.to_dict with latency_ms, and for a good image its size and colours.

    `width` and `height` are those of the oriented picture, in pixels; they are left out where its
    header cannot be read here. `colors` maps each class id of a detection to "#rrggbb".
    """
    return _row_response(_row_of(result, encoded), result)


def frame_response(result: ImageResult, encoded: bytes, index: int) -> web.Response:
    """Return the response for a frame of a sequence: as for an image, with `frame_index`.

    `track_colors` maps each track id of a detection to "#rrggbb".
    """
    row = _row_of(result, encoded)
    row["frame_index"] = index
    if result.ok:
        ids = [each.track_id for each in result.detections if each.track_id is not None]
        row["track_colors"] = {str(track_id): css_color(track_id) for track_id in ids}
    return _row_response(row, result)


def _row_of(result: ImageResult, encoded: bytes) -> dict[str, Any]:
    row = result.to_dict()
    row["latency_ms"] = result.latency_ms
    if result.ok:
        row["colors"] = {str(d.class_id): css_color(d.class_id) for d in result.detections}
        size = oriented_size(io.BytesIO(encoded))
        if size is not None:
            row["width"], row["height"] = size
    return row


def _row_response(row: dict[str, Any], result: ImageResult) -> web.Response:
    return json_response(row, status=_HTTP_STATUS.get(result.status, _TRITON_FAILED))


def error_response(
    http_status: int,
    message: str,
    *,
    status: Status = Status.INVALID_ARGUMENT,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return the response to a request that is rejected: {"status": ..., "error": ...}."""
    return json_response(
        {"status": status.label, "error": message}, status=http_status, headers=headers
    )


def json_response(
    value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a value as JSON, which has no NaN."""
    return web.json_response(value, status=status, headers=headers, dumps=_dumps)


def css_color(class_id: int) -> str:
    """Return the colour of a class, or of a track by its id, as "#rrggbb"."""
    return "#{:02x}{:02x}{:02x}".format(*class_color(class_id))
