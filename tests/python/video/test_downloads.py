"""Files at URLs of clients, from a real HTTP server on loopback: redirects, limits, silence."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from http_site import CONTENT, Site, content, redirect, run_site

from endcap.errors import ImageLimitError, InvalidArgumentError
from endcap.triton.url_patterns import parse_patterns, parse_url
from endcap.video.addresses import UrlRules
from endcap.video.downloads import DownloadedFile


@pytest.fixture
def site() -> Iterator[Site]:
    with run_site() as running:
        yield running


def test_a_file_is_read_and_sought(site: Site) -> None:
    site.paths["/file"] = content
    with contextlib.closing(site.open("/file?a=b")) as file:
        file.request()
        assert site.requested == ["/file?a=b"]
        assert file.seekable()
        assert file.seek(0, io.SEEK_END) == len(CONTENT)
        assert file.read(10) == b""
        file.seek(-300, io.SEEK_END)
        assert file.read(100) == CONTENT[-300:-200]
        assert file.tell() == len(CONTENT) - 200
        file.seek(0)
        assert file.read() == CONTENT
        file.seek(-1, io.SEEK_CUR)
        assert file.read(5) == CONTENT[-1:]
        with pytest.raises(ValueError, match="before the beginning"):
            file.seek(-1)
        assert file.name == site.url("/file"), "without the query"


def test_a_file_of_unknown_length_is_read_forwards(site: Site) -> None:
    site.paths["/file"] = lambda handler: content(handler, length=False)
    with contextlib.closing(site.open()) as file:
        file.request()
        assert not file.seekable()
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0, io.SEEK_END)
        assert file.read() == CONTENT


def test_user_and_password_go_in_the_head_of_their_host_alone(site: Site) -> None:
    site.paths["/file"] = redirect("/other")
    site.paths["/other"] = content
    url = parse_url(site.url().replace("//", "//name:p%40ss@"))
    patterns = f"http://name:*@127.0.0.1:{site.port}/* http://127.0.0.1:{site.port}/*"
    rules = site.rules(patterns)
    with contextlib.closing(DownloadedFile(url, rules, max_bytes=1 << 24, timeout_s=5)) as file:
        file.request()
        assert file.read() == CONTENT
    assert [head.get("Authorization") for head in site.heads] == ["Basic bmFtZTpwQHNz", None]


@pytest.mark.parametrize("length", [True, False])
def test_files_over_the_limit_are_refused(site: Site, length: bool) -> None:
    site.paths["/file"] = lambda handler: content(handler, length=length)
    with contextlib.closing(site.open(max_bytes=len(CONTENT))) as file:
        file.request()
        assert len(file.read()) == len(CONTENT)

    def read() -> bytes:
        with contextlib.closing(site.open(max_bytes=len(CONTENT) - 1)) as file:
            file.request()
            return file.read()

    with pytest.raises(ImageLimitError, match="max_file_bytes"):
        read()


def test_redirects_are_followed_where_they_are_allowed(site: Site) -> None:
    site.paths["/file"] = redirect("/a/../other")
    site.paths["/other"] = content
    with contextlib.closing(site.open()) as file:
        file.request()
        assert file.read() == CONTENT
    assert site.requested == ["/file", "/other"]


@pytest.mark.parametrize(
    ("location", "part"),
    [
        ("http://127.0.0.1:1/x", "no pattern"),
        ("http://127.0.0.1:PORT/secret", "no pattern"),
        ("http://[::ffff:127.0.0.1]:PORT/videos/x", "no pattern"),
        ("http://localhost:PORT/videos/x", "no pattern"),
        ("http://0x7f000001:PORT/videos/x", "read differently"),
        ("http://2130706433:PORT/videos/x", "read differently"),
        ("http://169.254.169.254/videos/x", "no pattern"),
        ("file:///etc/passwd", "begins with 'file:'"),
        ("ftp://127.0.0.1/videos/x", "begins with 'ftp:'"),
        ("gopher://127.0.0.1:PORT/videos/x", "begins with 'gopher:'"),
        ("/videos/%2e%2e/secret", "no pattern"),
        ("rtsp://127.0.0.1:PORT/videos/x", "leads to a URL of rtsp"),
    ],
)
def test_redirects_to_elsewhere_are_refused_without_a_request(
    site: Site, location: str, part: str
) -> None:
    site.paths["/videos/start"] = redirect(location.replace("PORT", str(site.port)))
    site.paths["/secret"] = site.paths["/videos/x"] = content
    rules = site.rules(f"http://127.0.0.1:{site.port}/videos/*")
    file = site.open("/videos/start", rules=rules)
    with contextlib.closing(file), pytest.raises(InvalidArgumentError, match=part):
        file.request()
    assert site.requested == ["/videos/start"]


def test_redirects_without_an_end_are_given_up(site: Site) -> None:
    site.paths["/file"] = redirect("/file")
    file = site.open()
    with contextlib.closing(file), pytest.raises(InvalidArgumentError, match="without an end"):
        file.request()
    assert len(site.requested) == 6


def test_a_name_is_not_looked_up_again(site: Site) -> None:
    """DNS rebinding: the second response of the name server would lead elsewhere."""
    responses = [["127.0.0.1"], ["127.0.0.2"]]
    queried: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        queried.append(host)
        return responses.pop(0)

    site.paths["/file"] = content
    rules = site.rules(f"http://localhost:{site.port}/*", resolve=resolve)
    url = parse_url(site.url(host="localhost"))
    with contextlib.closing(DownloadedFile(url, rules, max_bytes=1 << 24, timeout_s=5)) as file:
        file.request()
        assert file.read() == CONTENT
    assert queried == ["localhost"]
    assert site.heads[0]["Host"] == f"localhost:{site.port}"


def test_a_name_that_leads_to_loopback_gets_no_connection(site: Site) -> None:
    site.paths["/file"] = content
    rules = UrlRules(parse_patterns("http://*:*/*"), True, lambda *_: ["127.0.0.1"])
    url = parse_url(site.url(host="rebound.example.org"))
    file = DownloadedFile(url, rules, max_bytes=1 << 24, timeout_s=5)
    with contextlib.closing(file), pytest.raises(InvalidArgumentError, match="is not public"):
        file.request()
    assert site.requested == []


@pytest.mark.parametrize("status", [404, 403, 500, 204, 206])
def test_other_statuses_are_errors(site: Site, status: int) -> None:
    def respond(handler: Any) -> None:
        handler.send_response(status)
        handler.end_headers()

    site.paths["/file"] = respond
    file = site.open()
    with (
        contextlib.closing(file),
        pytest.raises(InvalidArgumentError, match=f"responded with {status}"),
    ):
        file.request()


def test_a_server_that_is_silent_or_gone(site: Site) -> None:
    silent = threading.Event()
    site.paths["/file"] = lambda _: silent.wait(10) and None
    file = site.open(timeout_s=0.3)
    try:
        with contextlib.closing(file), pytest.raises(InvalidArgumentError, match="cannot be read"):
            file.request()
    finally:
        silent.set()
    url = parse_url("http://127.0.0.1:9/x")
    rules = UrlRules(parse_patterns("http://127.0.0.1:9/*"))
    gone = DownloadedFile(url, rules, max_bytes=1, timeout_s=5)
    with contextlib.closing(gone), pytest.raises(InvalidArgumentError, match="cannot be reached"):
        gone.request()


def test_abort_ends_a_read(site: Site) -> None:
    released = threading.Event()

    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"a")
        handler.wfile.flush()
        released.wait(20)

    site.paths["/file"] = respond
    with contextlib.closing(site.open(timeout_s=20)) as file:
        file.request()
        assert file.read(1) == b"a"
        timer = threading.Timer(0.3, file.abort)
        timer.start()
        begin = time.monotonic()
        try:
            with contextlib.suppress(InvalidArgumentError):
                assert file.read(1) == b""
        finally:
            released.set()
            timer.join()
        assert time.monotonic() - begin < 10
        with pytest.raises(InvalidArgumentError, match="given up"):
            file.request()
