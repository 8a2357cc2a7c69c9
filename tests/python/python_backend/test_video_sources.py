"""Cameras and addresses that a configuration names, and what clients may send."""

from __future__ import annotations

import pytest

from endcap.errors import InvalidArgumentError
from endcap.triton.video_sources import find_address, parse_address, parse_cameras, parse_prefixes


@pytest.mark.parametrize(
    ("prefix", "source"),
    [
        ("rtsp://10.0.0.5/", "rtsp://10.0.0.5:554/stream?channel=1"),
        ("rtsp://10.0.0.5", "rtsp://10.0.0.5"),
        ("https://Videos.example/public", "https://VIDEOS.example.:443/public"),
        ("https://videos.example/public", "https://videos.example/public/a..b/c.mp4"),
        ("https://videos.example/public/", "https://videos.example/public/a%20b@c"),
        ("http://[2001:DB8::0:1]:8080/", "http://[2001:db8::1]:8080/x"),
    ],
)
def test_addresses_below_a_prefix_are_allowed(prefix: str, source: str) -> None:
    name, address = find_address(source, {}, parse_prefixes(prefix))
    assert address == parse_address(source)
    assert name == str(address)
    assert "?" not in name


@pytest.mark.parametrize(
    ("prefix", "source"),
    [
        ("https://videos.example/public", "https://videos.example/publicity"),
        ("https://videos.example/public/", "https://videos.example/public"),
        ("https://videos.example/public", "https://videos.example/PUBLIC/a"),
        ("https://videos.example/", "https://videos.example@evil.example/"),
        ("https://videos.example/", "https://videos.example.evil.example/"),
        ("https://videos.example/", "https://evil.example?https://videos.example/"),
        ("https://videos.example/", "https://evil.example#videos.example/"),
        ("https://videos.example/", "https://evil.example\\@videos.example/"),
        ("https://videos.example/", "https://videos%2eexample/"),
        ("https://videos.example/", "https://videos.example:8443/"),
        ("https://videos.example/", "https://videos.example:0/"),
        ("https://videos.example/", "https://videos.example:99999/"),
        ("https://videos.example/", "https://videos.example:/"),
        ("https://videos.example/", "https:videos.example/"),
        ("https://videos.example/", "rtsps://videos.example/"),
        ("https://videos.example/", " https://videos.example/"),
        ("https://videos.example/", "https://videos.example/a b"),
        ("https://videos.example/", "https://videos.example/%"),
        ("https://videos.example/", "https://videos.example/\u00e9"),
        ("https://videos.example/", "https://v\u0131deos.example/"),
        ("https://videos.example/", "https://videos.example/a%0d%0aHost:b"),
        ("https://videos.example/", "https://videos.example/a%5cb"),
        ("https://videos.example/", "https://videos.example/a%00"),
        ("https://videos.example/a", "https://videos.example/a/.%2E;x/b"),
        ("https://videos.example/a", "https://videos.example/a/./b"),
        ("http://[::1]/", "http://[::ffff:127.0.0.1]/"),
        ("http://[::1]/", "http://[::1%25eth0]/"),
        ("http://[::1]/", "http://[:::1]/"),
        ("http://127.0.0.1/", "http://0x7f.1/"),
    ],
)
def test_other_addresses_are_refused(prefix: str, source: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is refused: .*; send the name of a camera"):
        find_address(source, {}, parse_prefixes(prefix))


def test_cameras_have_names_and_secrets() -> None:
    text = "gate = rtsp://me:${GATE}@10.0.0.5/a?b=c, yard=https://v.example,"
    assert list(parse_cameras(text)) == ["gate", "yard"]
    cameras = parse_cameras(text, {"GATE": "p@ss/w"})
    assert list(cameras) == ["gate", "yard"]
    name, address = find_address("gate", cameras, ())
    assert (name, address.user, address.query) == ("camera gate", "me:p%40ss%2Fw", "?b=c")
    assert "p%40ss" not in f"{address!r} {address}"
    with pytest.raises(
        InvalidArgumentError, match=r"not a camera of this model; .* \(gate, yard\)"
    ):
        find_address("door", cameras, ())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("rtsp://me:secret@h/a", "entry 1 of cameras is not NAME=ADDRESS"),
        ("a=rtsp://h/a, a=rtsp://me:secret@h/b", "entry 2 of cameras"),
        ("a b=rtsp://me:secret@h/a", "entry 1 of cameras"),
        ("a=ftp://me:secret@h/a", "wrong address for a: it is not an address"),
        ("a=rtsp://me:${UNSET}@h/a", "no environment variable UNSET"),
    ],
)
def test_wrong_cameras_are_refused_without_their_secret(text: str, part: str) -> None:
    with pytest.raises(InvalidArgumentError, match=part) as refused:
        parse_cameras(text, {})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["http://me:secret@h/", "http://h/?secret"])
def test_prefixes_have_neither_user_nor_query(text: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match="entry 1 of url_prefixes has a user or"
    ) as refused:
        parse_prefixes(text)
    assert "secret" not in str(refused.value)


def test_a_refusal_does_not_repeat_the_secret_of_an_address() -> None:
    for source in ("rtsp://me:secret@h/a", "rtsp://h/a?secret", "rtsp://a@b@c:secret@h/%"):
        with pytest.raises(InvalidArgumentError) as refused:
            find_address(source, {}, ())
        assert "secret" not in str(refused.value)
