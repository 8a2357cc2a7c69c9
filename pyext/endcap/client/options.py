"""Options of a connection, and the arguments of a client."""

from __future__ import annotations

import os
import re
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from endcap.client.address import Address, Protocol, parse_address
from endcap.client.images import Color, ImageReader
from endcap.errors import InvalidArgumentError

Compression = Literal["gzip", "deflate"]

_LONGEST_TIMEOUT_S = 86400.0  # a day
_MOST_RETRIES = 100
# The name and the value of a header, RFC 9110 sections 5.1 and 5.5, without obsolete bytes.
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_METADATA_NAME = re.compile(r"[0-9A-Za-z_.\-]+")  # gRPC's; it goes in small letters
# Headers that the client sets itself.
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
    """Certificates of a TLS connection, where the well-known authorities are not enough.

    Attributes:
        ca: PEM file of the authorities to trust instead: of the system's over HTTP, of those that
            are part of gRPC's library over gRPC.
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
        timeout_s: How long to wait for the response to one.
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
        retries: The maximum number of retries while the server is unavailable. The default covers
            about 20 s, which outlasts a restart of the server, or ends with timeout_s.
        headers: Sent with each request; over gRPC as metadata, whose names have small letters.
        tls: Also on, with its defaults, by the schemes grpcs:// and https://.
        compression: Of requests; over HTTP of responses, too (over gRPC the server decides).
        keepalive: None sends no pings. gRPC only; over HTTP it has no effect.
        send_timeout: Whether a request has what is left of timeout_s as Triton's parameter
            `timeout`, so that a server with too much work can refuse it at once in place of working
            for nobody. Triton itself ignores it but where a queue policy of a model's
            dynamic_batching has allow_timeout_override. Requests of sequences and streams never
            have it.
    """

    timeout_s: float = 30.0
    retries: int = 12
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: Tls | None = None
    compression: Compression | None = None
    keepalive: Keepalive | None = None
    send_timeout: bool = True

    def __repr__(self) -> str:
        """Return the options without the values of headers, which may be secrets."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["headers"] = dict.fromkeys(self.headers, "...")
        return f"ConnectionOptions({', '.join(f'{n}={v!r}' for n, v in values.items())})"

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


def ssl_context(tls: Tls, context_type: Any = ssl.SSLContext) -> Any:
    """Return the context of HTTPS connections, of `ssl` or `gevent.ssl`.

    Raises InvalidArgumentError for files that are not PEM.
    """
    try:
        context = context_type(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags = ssl.create_default_context(cafile=tls.ca).verify_flags
        if tls.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidArgumentError(
            f"TLS's ca, certificate and key cannot be used ({error}); give PEM files, and the key "
            "that belongs to the certificate"
        ) from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


SharedMemory = Literal["none", "system", "cuda"]

_LONGEST_REQUEST_ID = 64


@dataclass(frozen=True)
class ClientArguments:
    """The arguments of `DetectionClient`, where they are documented; they are checked here.

    `DetectionClient.from_arguments` and `AsyncDetectionClient.from_arguments` take it.

    Raises:
        InvalidArgumentError: One of them cannot be used.
    """

    url: str = "127.0.0.1:8001"
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
    image_reader: ImageReader = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch", "regions", "region_bytes"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name} {number} is below 1")
        if self.shared_memory not in ("none", "system", "cuda"):
            raise InvalidArgumentError(
                f"shared_memory {self.shared_memory!r} is unknown; use none or system or cuda"
            )
        prefix = self.request_id or ""
        if not prefix.isprintable() or len(prefix) > _LONGEST_REQUEST_ID:
            raise InvalidArgumentError(
                f"request_id {prefix[:80]!r} cannot be sent; give at most {_LONGEST_REQUEST_ID} "
                "printable characters"
            )
        options = self.options or ConnectionOptions(timeout_s=self.timeout_s)
        address = parse_address(self.url, self.protocol)
        secure = address.secure or options.tls is not None
        object.__setattr__(self, "connection", options)
        object.__setattr__(self, "address", replace(address, secure=secure))
        object.__setattr__(self, "image_reader", ImageReader(self.color, self.jpeg_quality))

    def request_id_prefix(self) -> str:
        """Return the prefix of the ids of one client's requests."""
        return secrets.token_hex(4) if self.request_id is None else self.request_id
