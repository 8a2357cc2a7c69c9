"""endcap.tools.web.run: until a signal, beside a server that hangs, and where it cannot start."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpegs
import pytest
from aiohttp import web
from echo_model import write_model
from page_calls import JPEG, detect, send_request
from pages import SAMPLE_FILES, run_client
from responding_model import CONFIG, MODEL

import endcap.tools.web
from endcap.client import ClientError, DetectionClient
from endcap.errors import Status
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.page_server import PageServer

ROTATED = next(path for path in SAMPLE_FILES if "600x800_exif6" in path.name)


@pytest.fixture(scope="module")
def client() -> Iterator[DetectionClient]:
    with run_client() as client:
        yield client


RUN = """
import sys
import typer
import endcap.tools.web
from endcap.terminal.failure import stopped_by_signals

try:
    with stopped_by_signals(exit_code=7):
        endcap.tools.web.run(sys.argv[1], port=0, ready=lambda url: print(url, flush=True))
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def remove_slow_steps(problems: str) -> list[str]:
    """Return the lines without asyncio's on steps that a busy machine makes slow."""
    return [line for line in problems.splitlines() if not line.startswith("Executing <")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_run_serves_until_a_signal(client: DetectionClient, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", RUN, str(client.address)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with contextlib.ExitStack() as open_connections:
            for path in ("", "/", "/labels"):  # a browser opens connections and keeps them
                browser = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
                open_connections.callback(browser.close)
                browser.connect()
                if path:
                    browser.request("GET", path)
                    assert browser.getresponse().read()
            assert detect(url, ROTATED.read_bytes()).status == 200
            process.send_signal(number)
            _, problems = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, remove_slow_steps(problems)) == (7, [])
    with pytest.raises(ConnectionRefusedError):
        send_request(url, "GET", "/")


def test_run_ends_while_triton_hangs(tmp_path: Path) -> None:
    repository = write_model(tmp_path / "models", "detect", CONFIG, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with TritonServer(repository, ServerSettings(ports=ports, stop_timeout_s=5)) as triton:
        assert triton.pid is not None
        process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-c", RUN, triton.grpc_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            os.killpg(triton.pid, signal.SIGSTOP)
            browser = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
            with contextlib.closing(browser):
                browser.request("POST", "/detect", jpegs.photo_jpeg(8, 8), JPEG)
                assert send_request(url, "GET", "/labels").status == 200, (
                    "the image before it is under way"
                )
                process.send_signal(signal.SIGINT)
                # Half of the time that a request may take.
                _, problems = process.communicate(timeout=15)
        finally:
            os.killpg(triton.pid, signal.SIGCONT)
            process.kill()
            process.communicate()
    assert (process.returncode, remove_slow_steps(problems)) == (7, [])


def test_the_server_ends_while_a_request_waits_in_a_thread() -> None:
    begun, released = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        released.wait()

    async def response(_: web.Request) -> web.Response:
        await asyncio.to_thread(wait)
        return web.Response()

    application = web.Application()
    application.router.add_get("/", response)
    try:
        with PageServer(application, host="127.0.0.1", port=0) as server:
            browser = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc)
            with contextlib.closing(browser):
                browser.request("GET", "/")
                assert begun.wait(10)
            assert "endcap page" in {thread.name for thread in threading.enumerate()}
        assert "endcap page" not in {thread.name for thread in threading.enumerate()}
    finally:
        released.set()


def test_run_leaves_a_keyboard_interrupt_to_its_caller(client: DetectionClient) -> None:
    urls = []

    def interrupt(url: str) -> None:
        urls.append(url)
        assert send_request(url, "GET", "/").status == 200
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        endcap.tools.web.run(str(client.address), port=0, ready=interrupt)
    with pytest.raises(ConnectionRefusedError):
        send_request(urls[0], "GET", "/")


def test_a_port_that_is_taken_is_one_error_message(client: DetectionClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(endcap.tools.web.PageError) as caught:
            endcap.tools.web.run(str(client.address), port=port, ready=pytest.fail)
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be used for the page (Address already in use); end the "
        "program that holds it, or choose another port (0 picks a free one)"
    )
    assert caught.value.status == Status.INTERNAL


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"port": 70000}, "port 70000 on 127.0.0.1 cannot be used"),
        ({"port": 0, "host": "192.0.2.7"}, "host 192.0.2.7 is no address of this machine"),
        ({"port": 0, "host": "no such host"}, "host no such host is no address"),
    ],
    ids=["port", "address", "name"],
)
def test_where_it_cannot_listen_is_one_error_message(
    client: DetectionClient, options: dict[str, Any], part: str
) -> None:
    with pytest.raises(endcap.tools.web.PageError, match=part):
        endcap.tools.web.run(str(client.address), **options, ready=pytest.fail)


def test_without_a_triton_server_nothing_is_served() -> None:
    with pytest.raises(ClientError, match=r"no Triton server responds at grpc://127\.0\.0\.1:9"):
        endcap.tools.web.run("127.0.0.1:9", port=0, ready=pytest.fail)


def test_without_aiohttp_it_says_what_to_install(
    client: DetectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("endcap.tools.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(endcap.tools.web.PageError, match=r"pip install '(aiohttp>=|.*\[client\]')"):
        endcap.tools.web.run(str(client.address), port=0, ready=pytest.fail)
