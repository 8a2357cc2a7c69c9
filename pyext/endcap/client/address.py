"""Addresses of servers: HOST:PORT, with or without a scheme."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from endcap.errors import InvalidArgumentError

Protocol = Literal["grpc", "http"]

DEFAULT_PORTS: dict[str, int] = {"grpc": 8001, "http": 8000, "grpcs": 8001, "https": 443}

_SCHEMES: dict[str, tuple[Protocol, bool]] = {
    "grpc": ("grpc", False),
    "http": ("http", False),
    "grpcs": ("grpc", True),
    "https": ("http", True),
}
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    """The address of a server, its protocol, and whether TLS is used."""

    authority: str  # host:port
    protocol: Protocol
    secure: bool = False

    def __str__(self) -> str:
        return f"{self.protocol}{'s' if self.secure else ''}://{self.authority}"


def parse_address(url: str, protocol: Protocol | None = None) -> Address:
    """Read HOST, HOST:PORT, or either behind grpc://, http://, grpcs:// or https://.

    The port defaults to 8001 for gRPC, to 8000 for HTTP, and to 443 for https://: Triton itself has
    no HTTPS, but proxies in front of it do. An internationalized name is encoded as in the DNS.

    Args:
        url: The address.
        protocol: The protocol of a URL without a scheme; None is gRPC.

    Raises:
        InvalidArgumentError: The URL has another form, or contradicts `protocol`.
    """
    scheme, separator, rest = url.rpartition("://")
    if separator and scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"url {url!r} has the scheme {scheme}; use grpc://, http://, grpcs:// or https://"
        )
    if protocol is not None and protocol not in ("grpc", "http"):
        raise InvalidArgumentError(f"protocol {protocol!r} is unknown; use grpc or http")
    scheme_protocol, secure = _SCHEMES[scheme or protocol or "grpc"]
    if protocol is not None and scheme_protocol != protocol:
        raise InvalidArgumentError(f"url {url!r} contradicts protocol {protocol!r}; leave one out")
    match = _HOST_AND_PORT.fullmatch(rest.rstrip("/"))
    port = int(match["port"] or DEFAULT_PORTS[scheme or scheme_protocol]) if match else 0
    if match is None or not 0 < port < 65536:
        raise InvalidArgumentError(f"url {url!r} is not HOST:PORT with a port from 1 to 65535")
    try:
        host = match["host"].encode("idna").decode("ascii")
    except UnicodeError as error:
        raise InvalidArgumentError(
            f"url {url!r} has an invalid host name; give names of 1 to 63 characters between "
            "the dots"
        ) from error
    return Address(f"{host}:{port}", scheme_protocol, secure)
