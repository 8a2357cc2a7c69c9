"""Plain HTTP requests to the page's server."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple

JPEG = {"Content-Type": "image/jpeg"}


class Response(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"] == "application/json; charset=utf-8"
        return json.loads(self.body)


def send_request(
    url: str,
    method: str,
    path: str,
    body: bytes | Iterator[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Response(response.status, response.headers, response.read())


def detect(url: str, body: bytes | Iterator[bytes], **headers: str) -> Response:
    return send_request(url, "POST", "/detect?name=photo.jpg", body, {**JPEG, **headers})
