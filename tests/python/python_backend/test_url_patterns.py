"""URLs of clients in one form, and the patterns that allow them."""

from __future__ import annotations

import pytest

from endcap.errors import InvalidArgumentError
from endcap.triton.url_patterns import (
    Url,
    find_pattern,
    parse_patterns,
    parse_url,
    redirected,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a/b", Url("http", None, "a", 80, "/b")),
        ("HTTPS://Ex.AMPLE.:443", Url("https", None, "ex.ample", 443, "/")),
        ("http://a:8000/%7euser/%2e%2e/x%2D?q=1#f", Url("http", None, "a", 8000, "/x-", "q=1")),
        ("http://a/b/./c/../d/..", Url("http", None, "a", 80, "/b/")),
        ("http://a/../../etc", Url("http", None, "a", 80, "/etc")),
        ("http://a/%c3%a9", Url("http", None, "a", 80, "/%C3%A9")),
        ("rtsp://u:p%40@cam/1", Url("rtsp", "u:p%40", "cam", 554, "/1")),
        ("rtsps://[2001:DB8:0::1]/s", Url("rtsps", None, "2001:db8::1", 322, "/s")),
        ("http://[::ffff:127.0.0.1]/", Url("http", None, "::ffff:7f00:1", 80, "/")),
    ],
)
def test_urls_have_one_form(text: str, expected: Url) -> None:
    assert parse_url(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("file:///etc/passwd", "begins with 'file:'"),
        ("/etc/passwd", "begins with ''"),
        ("concat:http://a/b|http://c/d", "begins with 'concat:'"),
        ("subfile,,start,0,end,9,,:/etc/passwd", "begins with 'subfile,,start,0,end'"),
        ("crypto+http://a/", "begins with 'crypto+http:'"),
        ("hls+http://a/x.m3u8", "begins with 'hls+http:'"),
        ("rtmp://a/b", "begins with 'rtmp:'"),
        ("tcp://a:1", "begins with 'tcp:'"),
        ("http:/a/b", "begins with 'http:'"),
        ("", "begins with ''"),
        ("http://0x7f000001/", "number that programs read differently"),
        ("http://2130706433/", "number that programs read differently"),
        ("http://0177.0.0.1/", "number that programs read differently"),
        ("http://127.1/", "number that programs read differently"),
        ("http://127.0.0.1.0x1/", "number that programs read differently"),
        ("http://[fe80::1%25eth0]/", "no IPv6 address"),
        ("http://[::1/", "no IPv6 address"),
        ("http://[127.0.0.1]/", "no IPv6 address"),
        ("http://a@b@c/", "more than one @"),
        ("http:///x", "no name or address"),
        ("http://a..b/", "no name or address"),
        ("http://-a/", "no name or address"),
        ("http://b%2ecom/", "no name or address"),
        ("http://a:0/", "no number from 1 to 65535"),
        ("http://a:65536/", "no number from 1 to 65535"),
        ("http://a:٣/", "percent-encoded"),
        ("http://bücher.example/", "percent-encoded"),
        ("http://127.0.0.1\\@b/", "percent-encoded"),
        ("http://a/b c", "percent-encoded"),
        ("http://a/\r\nHost: b", "percent-encoded"),
        ("http://a/x|y", "percent-encoded"),
        ("http://a/..%2f..%2fx", "encoded slash"),
        ("http://a/%5c", "encoded slash"),
        ("http://a/%00", "encoded slash"),
        ("http://a/" + "b" * 2050, "characters"),
    ],
)
def test_what_is_no_url_is_refused(text: str, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part.replace("+", r"\+")):
        parse_url(text)


def test_messages_have_no_password() -> None:
    url = parse_url("rtsp://admin:secret@cam:8554/live?token=secret")
    assert str(url) == "rtsp://cam:8554/live"
    assert url.target == "/live?token=secret"


def test_long_urls_are_clipped_in_messages() -> None:
    url = parse_url("http://a/" + "b" * 2000)
    assert len(url.path) == 2001
    assert str(url) == "http://a/" + "b" * 247 + "..."


ALLOWED = "http://*.example.com/videos/* http://10.0.0.7:*/* rtsp://viewer:*@cam/* https://a/x.mp4"


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("http://cdn.example.com/videos/a.mp4", True),
        ("http://cdn.example.com:80/videos/a/b.mp4?t=1", True),
        ("http://CDN.example.com./videos/%61.mp4", True),
        ("http://example.com/videos/a.mp4", False),
        ("http://cdn.example.com:8080/videos/a.mp4", False),
        ("https://cdn.example.com/videos/a.mp4", False),
        ("http://cdn.example.com/videos/../secret", False),
        ("http://cdn.example.com/videos/%2e%2e/secret", False),
        ("http://cdn.example.com.evil.org/videos/a", False),
        ("http://evil.org/http://cdn.example.com/videos/a", False),
        ("http://cdn.example.com@evil.org/videos/a", False),
        ("http://evil.org#@cdn.example.com/videos/a", False),
        ("http://evil.org?.example.com/videos/a", False),
        ("http://user@cdn.example.com/videos/a", False),
        ("http://10.0.0.7:8000/x", True),
        ("http://10.0.0.70:8000/x", False),
        ("rtsp://viewer:secret@cam/live", True),
        ("rtsp://cam/live", False),
        ("rtsp://admin:secret@cam/live", False),
        ("https://a/x.mp4", True),
        ("https://a/xxmp4", False),
        ("https://a/x.mp4/y", False),
    ],
)
def test_patterns_are_compared_in_parts(text: str, fits: bool) -> None:
    assert (find_pattern(parse_patterns(ALLOWED), parse_url(text)) is not None) is fits


def test_a_pattern_with_a_host_goes_before_one_without() -> None:
    patterns = parse_patterns("http://*/* http://10.0.0.7/*")
    found = find_pattern(patterns, parse_url("http://10.0.0.7/x"))
    assert found is not None
    assert found.names_host


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("http://a", "the path is missing"),
        ("a/b", "with a scheme of http"),
        ("file:///x/*", "with a scheme of http"),
        ("*://a/*", "with a scheme of http"),
        ("http://a:0/", "port is no number"),
        ("http://a:b/", "port is no number"),
        ("http://a/?x=*", "without a query"),
        ("http:///x", "no name or address"),
        ("http://*.ex ample/", "path is missing"),
        ("http://[::1]x*/", "characters that no host has"),
        ("http://0x7f.1/*", "number that programs read differently"),
    ],
)
def test_what_is_no_pattern_is_refused(text: str, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part):
        parse_patterns(text)


def test_redirects_are_relative_to_their_url() -> None:
    origin = parse_url("http://user:secret@a:8000/x/y?z")
    assert redirected(origin, "../w") == Url("http", None, "a", 8000, "/w")
    assert redirected(origin, "//127.0.0.1/") == Url("http", None, "127.0.0.1", 80, "/")
    with pytest.raises(InvalidArgumentError, match="begins with 'file:'"):
        redirected(origin, "file:///etc/passwd")
