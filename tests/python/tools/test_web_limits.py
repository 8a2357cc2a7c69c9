"""The page's server and clients that send slowly, much, or much at once."""

from __future__ import annotations

import contextlib
import gc
import http.client
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jpegs
import pytest
from echo_model import write_model
from page_calls import JPEG, detect, send_request
from responding_model import CONFIG, MODEL

from endcap.client import DetectionClient
from endcap.client.batches import Batch
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.application import BodyLimits, make_application
from endcap.tools.web.page_server import PageServer

PICTURE = jpegs.photo_jpeg(64, 48)
LIMITS = BodyLimits(most=2, wait_s=1.0, within_s=3.0)
HEADERS_WITHIN_S = 1.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DetectionClient]:
    repository = write_model(tmp_path_factory.mktemp("models"), "detect", CONFIG, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with (
        TritonServer(repository, ServerSettings(ports=ports)) as server,
        DetectionClient(server.grpc_url) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def page(client: DetectionClient) -> Iterator[PageServer]:
    application = make_application(client, host="127.0.0.1", limits=LIMITS)
    with PageServer(
        application, host="127.0.0.1", port=0, headers_within_s=HEADERS_WITHIN_S
    ) as server:
        yield server


@contextlib.contextmanager
def half_upload(url: str, *, extra: str = "") -> Iterator[socket.socket]:
    """A request for an image of 50 MiB of which the first bytes are sent."""
    address = urllib.parse.urlsplit(url)
    head = (
        f"POST /detect HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: image/jpeg\r\n{extra}"
        f"Content-Length: {50 * MIB}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"\xff\xd8")
        yield connection


def response_on(connection: socket.socket) -> tuple[http.client.HTTPResponse, bytes]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response, response.read()


@pytest.mark.parametrize("sent", [b"", b"POST /detect HTTP/1.1\r\nHost: "], ids=["none", "half"])
def test_headers_that_do_not_come_end_the_connection(page: PageServer, sent: bytes) -> None:
    address = urllib.parse.urlsplit(page.url)
    start = time.monotonic()
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionError):  # a byte that comes after the end
            while not ready_to_read(connection):
                connection.sendall(b"a" if sent else b"")
                assert time.monotonic() - start < 10, "the connection stays open"
        assert time.monotonic() - start < 10


def ready_to_read(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


def test_a_body_that_does_not_come_is_408(page: PageServer) -> None:
    with half_upload(page.url) as connection:
        response, body = response_on(connection)
    assert response.status == 408
    assert b"has not arrived within 3 seconds" in body
    assert response.headers["Connection"] == "close"
    assert detect(page.url, PICTURE).status == 200


def test_many_half_uploads_are_refused_and_end(page: PageServer) -> None:
    start = time.monotonic()
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(half_upload(page.url)) for _ in range(100)]
        assert send_request(page.url, "GET", "/labels").status == 200
        with ThreadPoolExecutor(len(connections)) as pool:
            responses = [response for response, _ in pool.map(response_on, connections)]
    assert time.monotonic() - start < 30
    assert sorted({response.status for response in responses}) == [408, 503]
    assert sum(response.status == 408 for response in responses) <= 2 * LIMITS.most
    refused = [response for response in responses if response.status == 503]
    assert {response.headers["Retry-After"] for response in refused} == {"1"}
    assert detect(page.url, PICTURE).status == 200


def test_compressed_bodies_are_not_unpacked(page: PageServer) -> None:
    """What grows a thousandfold is an image that nobody can read."""
    body = zlib.compress(bytes(200 * MIB))
    response = send_request(
        page.url, "POST", "/detect", body, {**JPEG, "Content-Encoding": "deflate"}
    )
    assert response.status == 200  # and not 413: it is as small as it was sent


def test_what_is_no_http_gets_a_response_and_not_logged(
    page: PageServer, caplog: pytest.LogCaptureFixture
) -> None:
    address = urllib.parse.urlsplit(page.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(b"POST /\xff\x00\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n")
        response, _ = response_on(connection)
    assert response.status == 400
    assert caplog.records == []


def test_an_image_that_failed_is_not_kept(client: DetectionClient) -> None:
    """A cycle through its error would keep it until Python looks for cycles."""
    client.detect([b"C"])
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        (result,) = client.detect([b"C"])
        gc.collect()
        kept = [each for each in gc.garbage if isinstance(each, Batch)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not result.ok
    assert kept == []


def test_memory_is_freed_while_connections_stay_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endcap", "demo", "--web", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        assert process.stdout is not None
        url = next(filter(None, (re.search(r"Open (http://\S+)", line) for line in process.stdout)))
        with contextlib.ExitStack() as opened:
            connect(url[1], PICTURE, opened)
            before = resident_mib(process.pid)
            body = b"\xff\xd8" + bytes(55 * MIB)
            with ThreadPoolExecutor(10) as pool:
                statuses = list(pool.map(lambda _: connect(url[1], body, opened), range(10)))
            assert set(statuses) <= {422, 503, 0}
            assert 422 in statuses
            deadline = time.monotonic() + 60
            while resident_mib(process.pid) > before + 80:
                assert time.monotonic() < deadline, f"{before} and {resident_mib(process.pid)} MiB"
                time.sleep(1)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def connect(url: str, body: bytes, opened: contextlib.ExitStack) -> int:
    """Sends an image on a connection that stays open; 0 where that was closed on the way."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=120)
    opened.callback(connection.close)
    try:
        connection.request("POST", "/detect", body, JPEG)
        response = connection.getresponse()
        response.read()
    except ConnectionError:
        return 0
    return response.status


def resident_mib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024
