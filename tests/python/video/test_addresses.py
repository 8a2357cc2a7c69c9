"""Addresses that hosts of clients' URLs may have: rebinding, private and special ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest

from endcap.errors import InvalidArgumentError
from endcap.triton.url_patterns import parse_patterns, parse_url
from endcap.video.addresses import UrlRules, embedded, is_private, is_public

PUBLIC = "93.184.216.34"


class Names:
    """A name server that gives the next of its responses to each query."""

    def __init__(self, *responses: Sequence[str]) -> None:
        self.responses = list(responses)
        self.queried: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.queried.append((host, port))
        return self.responses.pop(0)


def rules(patterns: str, *responses: Sequence[str], private: bool = False) -> UrlRules:
    return UrlRules(parse_patterns(patterns), private, Names(*responses))


def test_without_patterns_no_url_is_allowed_and_no_name_looked_up() -> None:
    checked = rules("")
    with pytest.raises(InvalidArgumentError, match="its parameter allow_urls is empty; send the"):
        checked.addresses(parse_url("http://example.org/x"))
    assert isinstance(checked.resolve, Names)
    assert checked.resolve.queried == []


def test_a_url_that_no_pattern_fits_is_not_looked_up() -> None:
    checked = rules("http://example.org/videos/*")
    with pytest.raises(InvalidArgumentError, match="no pattern of the parameter allow_urls fits"):
        checked.addresses(parse_url("http://example.org/other"))
    assert isinstance(checked.resolve, Names)
    assert checked.resolve.queried == []


def test_public_addresses_are_given_after_one_query() -> None:
    names = Names([PUBLIC, "2606:4700::1111"], ["127.0.0.1"])
    checked = UrlRules(parse_patterns("http://*:8000/*"), resolve=names)
    assert checked.addresses(parse_url("http://example.org:8000/x")) == [PUBLIC, "2606:4700::1111"]
    assert names.queried == [("example.org", 8000)]


SPECIAL = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "0.0.0.0",
    "::",
    "169.254.169.254",
    "fe80::1",
    "224.0.0.1",
    "239.1.2.3",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001::1",
    "fec0::1",
]
PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "fd00::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
]


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("address", SPECIAL)
@pytest.mark.parametrize("pattern", ["http://*/*", "http://example.org/*"])
def test_special_addresses_are_refused_whatever_the_settings(
    address: str, private: bool, pattern: str
) -> None:
    checked = rules(pattern, [PUBLIC, address], private=private)
    with pytest.raises(InvalidArgumentError, match="its address is not public"):
        checked.addresses(parse_url("http://example.org/x"))


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_allow_private(address: str) -> None:
    url = parse_url("http://example.org/x")
    with pytest.raises(InvalidArgumentError, match=r"is private; .* allow_private to true"):
        rules("http://*/*", [address]).addresses(url)
    assert rules("http://*/*", [address], private=True).addresses(url) == [address]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254"])
def test_an_address_that_a_pattern_gives_is_allowed(address: str) -> None:
    url = parse_url(f"http://{address}:8000/x")
    checked = rules(f"http://{address}:8000/*", [address])
    assert checked.addresses(url) == [address]
    with pytest.raises(InvalidArgumentError, match="not allowed here"):
        rules("http://*:8000/*", [address]).addresses(url)


def test_localhost_by_name_is_loopback_alone() -> None:
    url = parse_url("http://localhost/x")
    assert rules("http://localhost/*", ["::1", "127.0.0.1"]).addresses(url) == ["::1", "127.0.0.1"]
    with pytest.raises(InvalidArgumentError, match="is private"):
        rules("http://localhost/*", ["10.0.0.1"]).addresses(url)


def test_a_host_without_an_address() -> None:
    with pytest.raises(InvalidArgumentError, match="has no address"):
        rules("http://*/*", []).addresses(parse_url("http://example.org/x"))
    lost = UrlRules(parse_patterns("http://*/*"))
    with pytest.raises(InvalidArgumentError, match="has no address"):
        lost.addresses(parse_url("http://no-such-host.invalid/x"))


def test_localhost_is_looked_up_for_real() -> None:
    found = UrlRules(parse_patterns("http://localhost/*")).addresses(parse_url("http://localhost/"))
    assert {ipaddress.ip_address(each).is_loopback for each in found} == {True}


def test_kinds_of_addresses() -> None:
    assert is_public(ipaddress.ip_address(PUBLIC))
    assert not is_private(ipaddress.ip_address(PUBLIC))
    mapped = ipaddress.ip_address("::ffff:10.0.0.1")
    assert embedded(mapped) == ipaddress.ip_address("10.0.0.1")
    assert embedded(ipaddress.ip_address("::1")) == ipaddress.ip_address("::1")
