"""Addresses, options of connections and arguments of clients, and the messages for invalid ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from endcap.client import (
    AsyncDetectionClient,
    ClientArguments,
    ClientError,
    ConnectionOptions,
    DetectionClient,
)
from endcap.client.options import Keepalive, Tls, parse_address
from endcap.errors import EndcapError, InvalidArgumentError
from tests.triton.client_layouts import LAYOUTS, OVER_GRPC, Layout, each

FILES = Path(__file__).resolve().parents[2] / "data" / "tls"


def test_valid_options_are_kept() -> None:
    options = ConnectionOptions(
        timeout_s=1,
        retries=0,
        headers={"X-Tenant": "orchard, row 3", "authorization": "Bearer a.b-c", "empty": ""},
        tls=Tls(FILES / "ca.pem", str(FILES / "client.pem"), FILES / "client.key"),
        compression="deflate",
        keepalive=Keepalive(time_s=10, max_pings_without_data=0),
    )
    assert options.headers["X-Tenant"] == "orchard, row 3"
    assert ConnectionOptions().retries == 12


@pytest.mark.parametrize(
    ("make", "given", "words"),
    [
        (ConnectionOptions, {"timeout_s": 0}, "timeout is 0 s: give more than 0 and at most 86400"),
        (ConnectionOptions, {"timeout_s": float("nan")}, "timeout is nan s"),
        (ConnectionOptions, {"timeout_s": float("inf")}, "timeout is inf s"),
        (ConnectionOptions, {"retries": -1}, "retries is -1: give a number from 0 to 100"),
        (ConnectionOptions, {"retries": 101}, "retries is 101"),
        (ConnectionOptions, {"compression": "zip"}, "'zip' is unknown; use gzip, deflate or None"),
        (ConnectionOptions, {"headers": {"a b": "c"}}, "header 'a b': 'c' cannot be sent"),
        (ConnectionOptions, {"headers": {"": "c"}}, "header '': 'c' cannot be sent"),
        (ConnectionOptions, {"headers": {"a!b": "c"}}, "header 'a!b': 'c' cannot be sent"),
        (ConnectionOptions, {"headers": {"a": "b\tc"}}, "a value of printable ASCII"),
        (ConnectionOptions, {"headers": {"a": "b\r\nc: d"}}, "cannot be sent; give a name of"),
        (ConnectionOptions, {"headers": {"a": "naïve"}}, "a value of printable ASCII"),
        (Tls, {"certificate": "client.pem"}, "a certificate without its key; give both"),
        (Tls, {"key": "client.key"}, "a key without its certificate; give both"),
        (DetectionClient, {"concurrency": 0}, "concurrency 0 is below 1"),
        (DetectionClient, {"timeout_s": -1}, "timeout is -1 s: give more than 0"),
        (DetectionClient, {"shared_memory": "disk"}, "unknown; use none or system or cuda"),
        (DetectionClient, {"request_id": "x" * 65}, "request_id 'xxx.* cannot be sent; give at"),
        (DetectionClient, {"jpeg_quality": 0}, "jpeg_quality 0 is not from 1 to 100"),
        (DetectionClient, {"color": "hsv"}, "color 'hsv' is unknown; use rgb or bgr"),
    ],
)
def test_options_that_are_refused(make: Any, given: dict[str, Any], words: str) -> None:
    """Those of a client before it connects, which would fail here."""
    with pytest.raises(InvalidArgumentError, match=words):
        make(**given)


NOWHERE = SimpleNamespace(address="127.0.0.1:1")
PAIR = {"certificate": FILES / "ca.pem", "key": FILES / "client.key"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ca": FILES / "absent.pem"}, "TLS cannot use"),
        ({"ca": FILES}, "TLS cannot use"),
        ({"ca": FILES / "make.sh"}, "give PEM files, and the key that belongs to the certificate"),
        (PAIR, "the key that belongs to"),
    ],
)
@each(LAYOUTS)
def test_tls_that_cannot_be_used_is_refused_before_a_request(
    layout: Layout, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        layout.connect(NOWHERE, tls=Tls(**given))


@each(OVER_GRPC)
def test_grpc_always_verifies_the_servers_certificate(layout: Layout) -> None:
    with pytest.raises(InvalidArgumentError, match="gRPC always verifies"):
        layout.connect(NOWHERE, tls=Tls(verify=False))


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("grpcs://host", None, "grpcs://host:8001"),
        ("grpcs://host:1", "grpc", "grpcs://host:1"),
        ("https://host", None, "https://host:443"),
        ("https://[::1]:8443/", "http", "https://[::1]:8443"),
        ("http://m\u00fcller.de", None, "http://xn--mller-kva.de:8000"),
        ("grpc://my_server.:1", None, "grpc://my_server.:1"),
        ("localhost:9000", None, "grpc://localhost:9000"),
        ("localhost:9000", "http", "http://localhost:9000"),
        ("localhost", None, "grpc://localhost:8001"),
        ("[::1]", "http", "http://[::1]:8000"),
    ],
)
def test_addresses(url: str, protocol: Any, expected: str) -> None:
    address = parse_address(url, protocol)
    assert str(address) == expected
    assert address.secure == expected.partition("://")[0].endswith("s")
    assert parse_address(expected) == address


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
        ("host:port", None, "is not HOST:PORT"),
        ("host:0", None, "is not HOST:PORT"),
        ("host:65536", None, "is not HOST:PORT"),
        (":8001", None, "is not HOST:PORT"),
        ("", None, "is not HOST:PORT"),
    ],
)
def test_invalid_addresses(url: str, protocol: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        parse_address(url, protocol)


def test_client_errors_are_endcap_errors_and_connection_errors() -> None:
    assert issubclass(ClientError, EndcapError)
    assert issubclass(ClientError, ConnectionError)
    with pytest.raises(ClientError, match="no Triton server responds"):
        DetectionClient("127.0.0.1:1", timeout_s=5)


def test_a_client_of_arguments_is_made_with_each_of_them() -> None:
    given = ClientArguments(
        url="here:1",
        protocol="http",
        model="m",
        timeout_s=3.0,
        batch=2,
        request_id="camera",
        color="bgr",
        jpeg_quality=20,
        options=ConnectionOptions(timeout_s=4.0),
    )
    fields = [each.name for each in dataclasses.fields(given) if each.init]
    values = {name: getattr(given, name) for name in fields}
    by_name, by_value = AsyncDetectionClient(**values), AsyncDetectionClient.from_arguments(given)
    assert by_name._arguments == by_value._arguments == given
    assert by_value.options.timeout_s == 4.0
    assert str(by_value.address) == "http://here:1"
