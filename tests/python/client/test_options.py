"""Options of connections: what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endcap.client._async.connection import AsyncConnection
from endcap.client._sync.connection import Connection
from endcap.client.address import parse_address
from endcap.client.options import ConnectionOptions, Keepalive, Tls
from endcap.errors import InvalidArgumentError

FILES = Path(__file__).resolve().parents[2] / "data" / "tls"


def test_what_can_be_used_is_kept() -> None:
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
    ("given", "words"),
    [
        ({"timeout_s": 0}, "timeout is 0 s: give more than 0 and at most 86400"),
        ({"timeout_s": float("nan")}, "timeout is nan s"),
        ({"timeout_s": float("inf")}, "timeout is inf s"),
        ({"retries": -1}, "retries is -1: give a number from 0 to 100"),
        ({"retries": 101}, "retries is 101"),
        ({"compression": "zip"}, "compression 'zip' is unknown; use gzip, deflate or None"),
        ({"headers": {"a b": "c"}}, "header 'a b': 'c' cannot be sent"),
        ({"headers": {"": "c"}}, "header '': 'c' cannot be sent"),
        ({"headers": {"a": "b\r\nc: d"}}, "cannot be sent; give a name of letters"),
        ({"headers": {"a": "naïve"}}, "a value of printable ASCII"),
        ({"headers": {"Content-Length": "3"}}, "header 'Content-Length' is the client's own"),
        ({"headers": {"grpc-timeout": "3"}}, "header 'grpc-timeout' is the client's own"),
        ({"headers": {"trace-bin": "x"}}, "give it a name that does not end in -bin"),
    ],
)
def test_options_that_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ConnectionOptions(**given)


@pytest.mark.parametrize(
    ("name", "value"), [("a!b", "c"), ("x-tenant", "a\tb"), ("x#", "")], ids=["!", "tab", "#"]
)
def test_headers_that_http_alone_can_send(name: str, value: str) -> None:
    options = ConnectionOptions(headers={name: value})
    with Connection(parse_address("http://127.0.0.1:1"), options) as connection:
        assert connection.options.headers == {name: value}
    for kind in (Connection, AsyncConnection):
        with pytest.raises(InvalidArgumentError, match="cannot be sent over gRPC; give a name of"):
            kind(parse_address("grpc://127.0.0.1:1"), options)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"time_s": 0}, "keepalive's time_s is 0: give more than 0"),
        ({"timeout_s": -1}, "keepalive's timeout_s is -1"),
        ({"max_pings_without_data": -1}, "max_pings_without_data is -1: give 0 or more"),
    ],
)
def test_keepalives_that_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Keepalive(**given)


def test_tls_whose_files_do_not_do_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="a certificate without its key; give both"):
        Tls(certificate=FILES / "client.pem")
    with pytest.raises(InvalidArgumentError, match="a key without its certificate; give both"):
        Tls(key=FILES / "client.key")
    with pytest.raises(InvalidArgumentError, match=r"ca '.*absent\.pem' is no file; give the path"):
        Tls(ca=FILES / "absent.pem")
    with pytest.raises(InvalidArgumentError, match="is no file"):
        Tls(ca=FILES)
