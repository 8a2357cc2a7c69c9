"""The demo's page: requests of any form leave its server at work."""

from __future__ import annotations

import contextlib
import re
import socket
import urllib.parse
from collections.abc import Iterator

import pytest
from echo_model import write_model
from hypothesis import example, given
from mutations import damaged, fuzzed
from page_calls import send_request
from responding_model import CONFIG, MODEL

from endcap.client import DetectionClient
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.application import BodyLimits, make_application
from endcap.tools.web.page_server import PageServer

LIMITS = BodyLimits(max_bytes=4096, within_s=0.5, wait_s=0.5)
REQUEST = (
    b"POST /detect?name=a.jpg HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n"
    b"Content-Type: image/jpeg\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\xff\xd8\xff\xd9"
)
PARTS = (
    b"\r\n", b"\r\n\r\n", b"%", b"%00", b"%ff", b"?name=", b"[", b"]", b"@", b":", b"..", b"GET ",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999\r\n",
    b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n", b"Content-Encoding: gzip\r\n",
    b"Host: [::1\r\n", b"Origin: http://[\r\n", b"/samples/", b"/labels", b"\xff", b"\0",
)  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    repository = write_model(tmp_path_factory.mktemp("models"), "detect", CONFIG, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with (
        TritonServer(repository, ServerSettings(ports=ports)) as triton,
        DetectionClient(triton.grpc_url) as client,
        PageServer(
            make_application(client, host="127.0.0.1", limits=LIMITS),
            host="127.0.0.1",
            port=0,
            headers_within_s=0.5,
        ) as server,
    ):
        yield server.url


@fuzzed
@given(damaged(REQUEST, parts=PARTS))
@example(REQUEST.replace(b"HTTP/1.1\r\nHost: HOST", b"HTTP/1.1\r\nHost: [::1"))
@example(REQUEST.replace(b"Origin: http://HOST", b"Origin: http://[::1"))
@example(REQUEST.replace(b"a.jpg", b"%ff%fe"))
def test_requests_of_any_form(url: str, request_bytes: bytes) -> None:
    address = urllib.parse.urlsplit(url)
    sent = request_bytes.replace(b"HOST", address.netloc.encode())
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        response = received(connection)
    status_line = response.partition(b"\r\n")[0]
    assert re.fullmatch(rb"HTTP/[0-9.]+ [1-4][0-9]{2} .*|", status_line), response
    assert send_request(url, "GET", "/labels").status == 200


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes; a reset ends it, too."""
    parts = []
    with contextlib.suppress(ConnectionError):  # after a response that did not wait for the body
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)
