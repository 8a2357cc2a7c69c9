"""Where a server is: HOST:PORT, with or without a scheme."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from endcap.errors import InvalidArgumentError

Protocol = Literal["grpc", "http"]

DEFAULT_PORTS: dict[str, int] = {"grpc": 8001, "http": 8000}

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    """A server and the protocol to speak with it."""

    authority: str  # host:port
    protocol: Protocol

    def __str__(self) -> str:
        return f"{self.protocol}://{self.authority}"


def parse_address(url: str, protocol: Protocol | None = None) -> Address:
    """Reads HOST, HOST:PORT, grpc://HOST:PORT or http://HOST:PORT.

    protocol: what to speak where the URL has no scheme; None is gRPC. The port defaults to 8001
    for gRPC and to 8000 for HTTP. Raises InvalidArgumentError for anything else.
    """
    scheme, separator, rest = url.rpartition("://")
    if separator and scheme not in DEFAULT_PORTS:
        raise InvalidArgumentError(f"url {url!r} has the scheme {scheme}; use grpc:// or http://")
    if separator and protocol is not None and scheme != protocol:
        raise InvalidArgumentError(f"url {url!r} contradicts protocol {protocol!r}; leave one out")
    if protocol is not None and protocol not in DEFAULT_PORTS:
        raise InvalidArgumentError(f"protocol {protocol!r} is unknown; use grpc or http")
    spoken: Protocol = "http" if (scheme or protocol) == "http" else "grpc"
    match = _HOST_AND_PORT.fullmatch(rest.rstrip("/"))
    port = int(match["port"] or DEFAULT_PORTS[spoken]) if match else 0
    if match is None or not 0 < port < 65536:
        raise InvalidArgumentError(f"url {url!r} is not HOST:PORT with a port from 1 to 65535")
    return Address(f"{match['host']}:{port}", spoken)
