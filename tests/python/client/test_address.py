"""Addresses by TLS; those without are in test_client_rows."""

from __future__ import annotations

from typing import Any

import pytest

from endcap.client.address import Address, parse_address
from endcap.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("grpcs://host", None, Address("host:8001", "grpc", secure=True)),
        ("grpcs://host:1", "grpc", Address("host:1", "grpc", secure=True)),
        ("https://host", None, Address("host:443", "http", secure=True)),
        ("https://[::1]:8443/", "http", Address("[::1]:8443", "http", secure=True)),
        ("http://host", None, Address("host:8000", "http", secure=False)),
        ("http://m\u00fcller.de", None, Address("xn--mller-kva.de:8000", "http", secure=False)),
        ("grpc://my_server.:1", None, Address("my_server.:1", "grpc", secure=False)),
    ],
)
def test_the_scheme_says_whether_by_tls(url: str, protocol: Any, expected: Address) -> None:
    address = parse_address(url, protocol)
    assert address == expected
    assert str(address).startswith(url.partition("://")[0] + "://")
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("url", "protocol", "words"),
    [
        ("grpcs://host", "http", "contradicts protocol 'http'"),
        ("https://host", "grpc", "contradicts protocol 'grpc'"),
        ("ftp://host", None, "use grpc://, http://, grpcs:// or https://"),
        ("host", "https", "protocol 'https' is unknown; use grpc or http"),
        ("https://host/path", None, "is not HOST:PORT"),
        ("a..b:8000", None, "has an invalid host name; give names of 1 to 63 characters"),
        ("http://" + "x" * 64, None, "has an invalid host name"),
    ],
)
def test_what_is_refused(url: str, protocol: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        parse_address(url, protocol)
