"""How a client speaks with a server: deadlines, retries, headers, TLS, compression, keepalive."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from endcap.errors import InvalidArgumentError

Compression = Literal["gzip", "deflate"]

_LONGEST_TIMEOUT_S = 86400.0  # a day
_MOST_RETRIES = 100
# The name and the value of a header, RFC 9110 sections 5.1 and 5.5, without obsolete bytes.
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_METADATA_NAME = re.compile(r"[0-9A-Za-z_.\-]+")  # gRPC's; it goes in small letters
# What the client itself says of a request's body and connection.
_OWN_HEADERS = (
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "inference-header-content-length",
    "te",
    "transfer-encoding",
)


@dataclass(frozen=True)
class Tls:
    """What a connection by TLS needs where the well-known authorities do not do.

    Attributes:
        ca: PEM file of the authorities to trust instead: of the system's over HTTP, of those that
            come with gRPC's library over gRPC.
        certificate: PEM file of the client's certificate, which the server checks; with `key`.
        key: PEM file of the certificate's private key; with `certificate`.
        verify: False takes any certificate of the server. HTTP only: gRPC has no such option.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            given, missing = ("certificate", "key") if self.key is None else ("key", "certificate")
            raise InvalidArgumentError(f"TLS has a {given} without its {missing}; give both")
        for name in ("ca", "certificate", "key"):
            path = getattr(self, name)
            if path is not None and not os.path.isfile(path):
                raise InvalidArgumentError(
                    f"TLS's {name} '{os.fspath(path)}' is no file; give the path of a PEM file"
                )


@dataclass(frozen=True)
class Keepalive:
    """Pings over gRPC, by which a connection that has died is noticed.

    The defaults are Triton's own client's, but for time_s, which is there so long that no ping is
    ever sent; its server tolerates one each 300 s by default.

    Attributes:
        time_s: Between two pings.
        timeout_s: How long to wait for the answer to one.
        without_calls: Ping also when no request is in flight.
        max_pings_without_data: After how many to stop while no request is; 0 never.
    """

    time_s: float = 300.0
    timeout_s: float = 20.0
    without_calls: bool = False
    max_pings_without_data: int = 2

    def __post_init__(self) -> None:
        for name in ("time_s", "timeout_s"):
            value = getattr(self, name)
            if not 0 < value <= _LONGEST_TIMEOUT_S:
                raise InvalidArgumentError(
                    f"keepalive's {name} is {value:g}: give more than 0 and at most "
                    f"{_LONGEST_TIMEOUT_S:g}"
                )
        if self.max_pings_without_data < 0:
            raise InvalidArgumentError(
                f"keepalive's max_pings_without_data is {self.max_pings_without_data}: give 0 or "
                "more"
            )


@dataclass(frozen=True)
class ConnectionOptions:
    """Options of a connection. Raises InvalidArgumentError for one that cannot be used.

    Attributes:
        timeout_s: Of a request, its retries included.
        retries: How often to ask again a server that is unavailable; 0 never. The default goes on
            for about 20 s, which outlasts a server that is started again, or to the end of
            timeout_s.
        headers: Sent with each request; over gRPC as metadata, whose names have small letters.
        tls: Also on, with its defaults, by the schemes grpcs:// and https://.
        compression: Of requests; over HTTP of answers, too (of gRPC's the server decides).
        keepalive: None sends no pings. gRPC only; over HTTP it has no effect.
    """

    timeout_s: float = 30.0
    retries: int = 12
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: Tls | None = None
    compression: Compression | None = None
    keepalive: Keepalive | None = None

    def __post_init__(self) -> None:
        check_timeout(self.timeout_s)
        if not 0 <= self.retries <= _MOST_RETRIES:
            raise InvalidArgumentError(
                f"retries is {self.retries}: give a number from 0 to {_MOST_RETRIES}"
            )
        if self.compression not in (None, "gzip", "deflate"):
            raise InvalidArgumentError(
                f"compression {self.compression!r} is unknown; use gzip, deflate or None"
            )
        for name, value in self.headers.items():
            _check_header(name, value)


def check_timeout(timeout_s: float) -> None:
    """Raise InvalidArgumentError for a deadline that no request can have."""
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        raise InvalidArgumentError(
            f"timeout is {timeout_s:g} s: give more than 0 and at most {_LONGEST_TIMEOUT_S:g}"
        )


def check_metadata(headers: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError for headers that can go over HTTP, but not over gRPC."""
    for name, value in headers.items():
        if not _METADATA_NAME.fullmatch(name) or "\t" in value:
            raise InvalidArgumentError(
                f"header {name!r}: {value!r} cannot be sent over gRPC; give a name of letters, "
                "digits, '-', '_' and '.', and a value without tabs"
            )


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
        raise InvalidArgumentError(
            f"header {name!r}: {value!r} cannot be sent; give a name of letters, digits and '-', "
            "and a value of printable ASCII"
        )
    if name.lower() in _OWN_HEADERS or name.lower().startswith("grpc-"):
        raise InvalidArgumentError(f"header {name!r} is the client's own; leave it out")
    if name.lower().endswith("-bin"):
        raise InvalidArgumentError(
            f"header {name!r} would be binary over gRPC; give it a name that does not end in -bin"
        )
