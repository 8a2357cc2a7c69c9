"""Addresses of servers, options of a connection, and the arguments of a client."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from types import ModuleType
from typing import Literal

from endcap.errors import InvalidArgumentError

Protocol = Literal["grpc", "http"]
Color = Literal["rgb", "bgr"]

_SCHEMES: dict[str, tuple[Protocol, bool, int]] = {  # protocol, TLS, default port
    "grpc": ("grpc", False, 8001),
    "http": ("http", False, 8000),
    "grpcs": ("grpc", True, 8001),
    "https": ("http", True, 443),
}
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")

Compression = Literal["gzip", "deflate"]

_MAX_TIMEOUT_S = 86400.0  # a day
_MAX_RETRIES = 100
# Headers that can be sent over both protocols.
_HEADER_NAME = re.compile(r"[0-9A-Za-z_.\-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True)
class Address:
    """The address of a server, its protocol, and whether TLS is used."""

    authority: str  # host:port
    protocol: Protocol
    secure: bool = False

    def __str__(self) -> str:
        return f"{self.protocol}{'s' if self.secure else ''}://{self.authority}"


def parse_address(url: str, protocol: Protocol | None = None) -> Address:
    """Parse HOST or HOST:PORT, with or without grpc://, http://, grpcs:// or https://.

    The port defaults to 8001 for gRPC, to 8000 for HTTP, and to 443 for https://, which proxies in
    front of Triton speak. An internationalized name is encoded as in the DNS.

    Args:
        url: The address.
        protocol: The protocol of a URL without a scheme; None is gRPC.

    Raises:
        InvalidArgumentError: The URL is malformed, or contradicts `protocol`.
    """
    scheme, separator, rest = url.rpartition("://")
    if separator and scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"url {url!r} has the scheme {scheme}; use grpc://, http://, grpcs:// or https://"
        )
    if protocol is not None and protocol not in ("grpc", "http"):
        raise InvalidArgumentError(f"protocol {protocol!r} is unknown; use grpc or http")
    scheme_protocol, secure, default_port = _SCHEMES[scheme or protocol or "grpc"]
    if protocol is not None and scheme_protocol != protocol:
        raise InvalidArgumentError(f"url {url!r} contradicts protocol {protocol!r}; leave one out")
    match = _HOST_AND_PORT.fullmatch(rest.rstrip("/"))
    port = int(match["port"] or default_port) if match else 0
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


@dataclass(frozen=True)
class Tls:
    """Certificates of a TLS connection that does not use the well-known authorities.

    Attributes:
        ca: PEM file of the authorities to trust instead of the system's (HTTP) or of those in
            gRPC's library (gRPC).
        certificate: PEM file of the client's certificate; requires `key`.
        key: PEM file of the certificate's private key; requires `certificate`.
        verify: False accepts any certificate of the server. HTTP only: gRPC has no such option.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            one, other = ("certificate", "key") if self.key is None else ("key", "certificate")
            raise InvalidArgumentError(f"TLS has a {one} without its {other}; give both")


@dataclass(frozen=True)
class Keepalive:
    """Pings over gRPC, which detect a dead connection.

    The defaults are those of tritonclient, except for time_s: tritonclient sends no pings, and a
    Triton server tolerates one per 300 s by default.

    Attributes:
        time_s: The time between two pings.
        timeout_s: The time to wait for the response to a ping.
        without_calls: Whether to ping while no request is in flight.
        max_pings_without_data: The number of pings without a request after which to stop; 0 is
            unlimited.
    """

    time_s: float = 300.0
    timeout_s: float = 20.0
    without_calls: bool = False
    max_pings_without_data: int = 2


@dataclass(frozen=True)
class ConnectionOptions:
    """Options of a connection. Raises InvalidArgumentError for one that cannot be used.

    Attributes:
        timeout_s: The deadline of a request, including retries.
        retries: The maximum number of retries while the server is unavailable. The default covers
            about 20 s, which outlasts a restart of the server, or ends with timeout_s.
        headers: Sent with each request; over gRPC as metadata, with names in lower case.
        tls: Certificates. The schemes grpcs:// and https:// use TLS without it.
        compression: Of requests, and over HTTP of responses (over gRPC the server decides).
        keepalive: gRPC only; None sends no pings.
        send_timeout: Whether to send the remaining time as Triton's parameter `timeout`, so that
            an overloaded server can refuse a request at once. Triton itself ignores it unless a
            queue policy in a model's dynamic_batching has allow_timeout_override. Requests of
            sequences and streams never have it.
    """

    timeout_s: float = 30.0
    retries: int = 12
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may be secret
    tls: Tls | None = None
    compression: Compression | None = None
    keepalive: Keepalive | None = None
    send_timeout: bool = True

    def __post_init__(self) -> None:
        check_timeout(self.timeout_s)
        if not 0 <= self.retries <= _MAX_RETRIES:
            raise InvalidArgumentError(
                f"retries is {self.retries}: give a number from 0 to {_MAX_RETRIES}"
            )
        if self.compression not in (None, "gzip", "deflate"):
            raise InvalidArgumentError(
                f"compression {self.compression!r} is unknown; use gzip, deflate or None"
            )
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise InvalidArgumentError(
                    f"header {name!r}: {value!r} cannot be sent; give a name of letters, digits, "
                    "'-', '_' and '.', and a value of printable ASCII"
                )


def check_timeout(timeout_s: float) -> None:
    """Raise InvalidArgumentError for a deadline that no request can have."""
    if not 0 < timeout_s <= _MAX_TIMEOUT_S:
        raise InvalidArgumentError(
            f"timeout is {timeout_s:g} s: give more than 0 and at most {_MAX_TIMEOUT_S:g}"
        )


def make_ssl_context(tls: Tls, module: ModuleType = ssl) -> ssl.SSLContext:
    """Return a context of `ssl` or gevent's; InvalidArgumentError for files that are not PEM."""
    try:
        context: ssl.SSLContext = module.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        files = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}
        names = ", ".join(f"{name} '{os.fspath(path)}'" for name, path in files.items() if path)
        raise InvalidArgumentError(
            f"TLS cannot use {names} ({error}); give PEM files, and the key that belongs to the "
            "certificate"
        ) from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


SharedMemory = Literal["none", "system", "cuda"]

_MAX_REQUEST_ID = 64


@dataclass(frozen=True)
class ClientArguments:
    """The arguments of `DetectionClient`, for `from_arguments` of either client.

    Raises:
        InvalidArgumentError: An argument cannot be used.
    """

    url: str = "127.0.0.1:8001"
    _: KW_ONLY
    protocol: Protocol | None = None
    model: str = "detect"
    timeout_s: float = 30.0
    concurrency: int = 4
    batch: int = 1
    labels: Sequence[str] | None = None
    extras: bool = True
    shared_memory: SharedMemory = "none"
    regions: int | None = None
    region_bytes: int | None = None
    classify: int | None = None
    color: Color = "rgb"
    jpeg_quality: int = 95
    request_id: str | None = None
    options: ConnectionOptions | None = None

    # Derived from them.
    address: Address = field(init=False, repr=False)
    connection: ConnectionOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch", "regions", "region_bytes"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name} {number} is below 1")
        if self.shared_memory not in ("none", "system", "cuda"):
            raise InvalidArgumentError(
                f"shared_memory {self.shared_memory!r} is unknown; use none or system or cuda"
            )
        if self.color not in ("rgb", "bgr"):
            raise InvalidArgumentError(f"color {self.color!r} is unknown; use rgb or bgr")
        if not 1 <= self.jpeg_quality <= 100:
            raise InvalidArgumentError(f"jpeg_quality {self.jpeg_quality} is not from 1 to 100")
        prefix = self.request_id or ""
        if not prefix.isprintable() or len(prefix) > _MAX_REQUEST_ID:
            raise InvalidArgumentError(
                f"request_id {prefix[:80]!r} cannot be sent; give at most {_MAX_REQUEST_ID} "
                "printable characters"
            )
        options = self.options or ConnectionOptions(timeout_s=self.timeout_s)
        address = parse_address(self.url, self.protocol)
        secure = address.secure or options.tls is not None
        object.__setattr__(self, "connection", options)
        object.__setattr__(self, "address", replace(address, secure=secure))
