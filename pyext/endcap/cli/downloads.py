"""Downloads of images from http:// and https:// addresses."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from endcap import __version__
from endcap._system.pip_commands import install_command
from endcap.client.address import Address, parse_address
from endcap.client.errors import ClientError, RequestError, ResponseTooLargeError, not_triton
from endcap.client.http import HttpRequest, HttpResponse
from endcap.client.options import ConnectionOptions
from endcap.client.retry import Deadline
from endcap.client.synchronization import map_unordered
from endcap.errors import InvalidArgumentError

if TYPE_CHECKING:
    from endcap.client._sync.http_transport import HttpTransport

MOST_BYTES = 64 << 20  # the default of `max_bytes`, beyond which the server rejects a file
MOST_BYTES_TOGETHER = 4 << 30
_MOST_REDIRECTS = 5
_AT_ONCE = 4
_ANY_SIZE = 1 << 62
_LONGEST_HEAD_S = 5.0
_LONGEST_NAME = 100  # in bytes
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 303, 307, 308)
_MISSING = (404, 410)
_REFUSED = (401, 403, 407, 451)
_FOR_NOW = (429, 500, 502, 503, 504)
_PATH = "/%:@!$&'()*+,;=-._~"  # what stays as it is, RFC 3986 section 3.3
_INSTEAD = "download it yourself, and give the file"
FRAMES_ADVICE = (
    "a video is read by `endcap infer` alone: take frames out of it first, for example with "
    "`ffmpeg -i IN frame_%06d.jpg`"
)


def check_address(url: str) -> None:
    """Raise InvalidArgumentError for an address that cannot be downloaded from."""
    _parse(url)


def file_name(url: str, *, default: str = "image") -> str:
    """Return a name for the file of an address, from the last part of its path.

    It has no slashes, control characters or leading dots, and at most 100 bytes; it is `default`
    where nothing is left.
    """
    last = urllib.parse.urlsplit(url).path.rstrip("/").rpartition("/")[2]
    name = "".join(
        c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in urllib.parse.unquote(last)
    ).strip(" .")
    path = Path(name or default)
    stem, suffix = (path.stem, path.suffix) if len(path.suffix) <= 8 else (path.name, "")
    while len(f"{stem}{suffix}".encode()) > _LONGEST_NAME:
        stem = stem[:-1]
    return f"{stem}{suffix}"


def download(
    targets: Mapping[str, Path], *, timeout_s: float, on_end: Callable[[], None]
) -> dict[str, RequestError]:
    """Download the files of addresses, several at once; return the error of each that failed.

    Args:
        targets: The file to write for each address; its folder is made.
        timeout_s: For each, its redirects included.
        on_end: Called after each.

    Raises:
        ClientError: httpcore is not installed.
    """
    failures: dict[str, RequestError] = {}
    addresses = (url for url in targets)
    with contextlib.closing(_Downloads(timeout_s)) as downloads:

        def fetch(url: str) -> tuple[str, RequestError | None]:
            try:
                downloads.write(url, targets[url])
            except RequestError as error:
                return url, error
            return url, None

        ended: Generator[tuple[str, RequestError | None], None, None]
        with contextlib.closing(map_unordered(fetch, addresses, _AT_ONCE)) as ended:
            for url, error in ended:
                if error is not None:
                    failures[url] = error
                on_end()
    return failures


def content_type(url: str, *, timeout_s: float) -> str:
    """Return the type that the server of an address gives, "" where it gives none.

    Only the head of a response is requested; redirects are followed.

    Raises:
        InvalidArgumentError: An address that cannot be requested.
        ClientError: httpcore is not installed.
    """
    place = _parse(url)
    deadline = Deadline(min(timeout_s, _LONGEST_HEAD_S))
    with contextlib.closing(_Downloads(timeout_s, most_bytes=_ANY_SIZE)) as connections:
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                response = connections.send(place, deadline, method="HEAD")
                location = response.headers.get("location")
                if response.status not in _REDIRECTS or not location:
                    break
                url = _redirected(url, location)
                place = _parse(url)
        except RequestError:
            return ""  # the download says why
    return _type_of(response) if response.status == 200 else ""


@dataclass(frozen=True)
class _Place:
    """An address as it is sent: host in ASCII, path percent-encoded."""

    address: Address
    host: str  # with the port where it is not the usual one
    path: str


class _Downloads:
    """Connections to the servers of addresses. Thread-safe."""

    def __init__(self, timeout_s: float, most_bytes: int = MOST_BYTES) -> None:
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._transports: dict[Address, HttpTransport] = {}
        self._lock = threading.Lock()
        self._bytes = 0

    def close(self) -> None:
        """End what is in flight."""
        with self._lock:
            for transport in self._transports.values():
                transport.close()

    def write(self, url: str, target: Path) -> None:
        """Download a file. Raises RequestError."""
        content = self._fetch(url)
        with self._lock:
            self._bytes += len(content)
            too_many = self._bytes > MOST_BYTES_TOGETHER
        if too_many:
            raise RequestError(
                "unreadable",
                f"the downloads are larger than {MOST_BYTES_TOGETHER >> 30} GiB together; give "
                "fewer addresses at once",
            )
        try:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            raise RequestError(
                "unreadable",
                f"cannot be stored in {target.parent} ({error.strerror}); free space there, or "
                "set TMPDIR to another folder",
            ) from error

    def _fetch(self, url: str) -> bytes:
        deadline = Deadline(self._timeout_s)
        for _ in range(_MOST_REDIRECTS + 1):
            response = self.send(_parse(url), deadline)
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or not location:
                return _image_of(response)
            url = _redirected(url, location)
        raise RequestError(
            "unreadable",
            f"more than {_MOST_REDIRECTS} redirects, the last to {url}; give the address of the "
            "image itself",
        )

    def send(self, place: _Place, deadline: Deadline, *, method: str = "GET") -> HttpResponse:
        """Send a request, and return the response of any status. Raises RequestError."""
        headers = {
            "Host": place.host,
            "User-Agent": f"endcap/{__version__}",
            "Accept": "image/*",
            "Accept-Encoding": "identity",
        }
        try:
            transport = self._transport(place.address)
            return transport.send(HttpRequest(method, place.path, b"", headers), deadline.left_s())
        except ResponseTooLargeError:
            raise RequestError(
                "image_limit",
                f"larger than {MOST_BYTES >> 20} MiB, the limit of a download; {_INSTEAD}",
            ) from None
        except RequestError as error:
            if error.status_name in ("timeout", "cancelled"):
                raise
            raise RequestError("unreadable", _why_broken(error, place)) from error
        except TimeoutError:
            raise RequestError(
                "timeout",
                f"no whole response from {place.host} within {self._timeout_s:g} s, the limit of "
                "--timeout",
            ) from None

    def _transport(self, address: Address) -> HttpTransport:
        try:
            from endcap.client._sync.http_transport import HttpTransport
        except ImportError as error:
            raise ClientError(
                f"downloads need the package httpcore ({error}); run `{install_command('client')}`"
            ) from error
        with self._lock:
            if address not in self._transports:
                self._transports[address] = HttpTransport(
                    address, ConnectionOptions(), self._most_bytes
                )
            return self._transports[address]


def _parse(url: str) -> _Place:
    """Read an address. Raises InvalidArgumentError."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidArgumentError(f"address {url!r} is none ({error})") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidArgumentError(
            f"address {url!r} is not http://HOST/PATH or https://HOST/PATH; {_INSTEAD}"
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError(
            f"the address of {parts.hostname} holds a user name or password, which reports would "
            f"show; {_INSTEAD}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = _PORTS[parts.scheme]
    address = parse_address(f"{parts.scheme}://{host}:{usual if port is None else port}", "http")
    named = address.authority.rpartition(":")[0] if port in (None, usual) else address.authority
    path = urllib.parse.quote(parts.path or "/", safe=_PATH)
    query = f"?{urllib.parse.quote(parts.query, safe=_PATH + '?')}" if parts.query else ""
    return _Place(address, named, path + query)


def _redirected(url: str, location: str) -> str:
    """Return the address that one redirects to. Raises RequestError for one that is not taken."""
    try:
        target = urllib.parse.urljoin(url, location)
        place = _parse(target)
    except (InvalidArgumentError, ValueError) as error:
        raise RequestError(
            "unreadable", f"redirects to {location!r}, which is no address of an image; {_INSTEAD}"
        ) from error
    if url[:6].lower() == "https:" and not place.address.secure:
        raise RequestError(
            "unreadable",
            f"redirects from https to {target}, without TLS; give that address where that is meant",
        )
    return target


def _image_of(response: HttpResponse) -> bytes:
    """Return the body of a response that may be an image's. Raises RequestError for another."""
    status = response.status
    if status != 200:
        reason = (
            "it does not exist there; check the address"
            if status in _MISSING
            else f"the server does not permit it; {_INSTEAD}"
            if status in _REFUSED
            else "the server cannot serve it now; try again later"
            if status in _FOR_NOW
            else _INSTEAD
        )
        raise RequestError("unreadable", f"HTTP status {status}: {reason}")
    kind = _type_of(response)
    if kind.startswith("video/"):
        raise RequestError("unsupported", f"the address has {kind}; {FRAMES_ADVICE}")
    if kind.startswith(("text/", "audio/", "font/")) or kind in _NO_IMAGES:
        raise RequestError(
            "unsupported",
            f"the address has {kind}, not an image; give the address of the image itself",
        )
    if not response.body:
        raise RequestError("unreadable", "the response is empty; check the address")
    return response.body


def _type_of(response: HttpResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


_NO_IMAGES = (
    "application/json",
    "application/javascript",
    "application/pdf",
    "application/xhtml+xml",
    "application/xml",
    "application/zip",
)


def _why_broken(error: RequestError, place: _Place) -> str:
    """Return why there is no whole response, from the errors that led to this one."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for each in causes:
        if isinstance(each, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {place.host} is not trusted ({each.verify_message}); "
                "SSL_CERT_FILE=ca.pem trusts the authorities of a file"
            )
        if isinstance(each, ssl.SSLError):
            return f"no TLS connection to {place.host} ({each.reason or each})"
        if isinstance(each, socket.gaierror):
            return f"the host {place.host} is not known ({each.strerror}){_proxy_advice(place)}"
    if any(type(each).__name__ == "ConnectError" for each in causes):  # httpcore's
        reasons = (each.strerror for each in causes if isinstance(each, OSError) and each.strerror)
        reason = next(reasons, str(error))
        return f"no connection to {place.host} ({reason}){_proxy_advice(place)}"
    if str(error) == str(not_triton("http")):
        return f"the response of {place.host} is not HTTP; check the address and its port"
    return f"the connection to {place.host} broke before the whole response; try again"


def _proxy_advice(place: _Place) -> str:
    scheme = "https" if place.address.secure else "http"
    is_named = scheme in urllib.request.getproxies()
    return f"; endcap does not use the {scheme}_proxy of the environment: {_INSTEAD}" * is_named
