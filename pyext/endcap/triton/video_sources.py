"""Cameras and addresses that a model's configuration lets a server open.

A client's address is compared in parts (scheme, host, port, path), and only in a form that every
program reads in the same way. Other forms are refused, not repaired.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from endcap import _core
from endcap.errors import InvalidArgumentError

DEFAULT_PORTS = {"http": 80, "https": 443, "rtsp": 554, "rtsps": 322}
_MAX_CHARACTERS = 2048
_CAMERA = re.compile(r"[A-Za-z0-9_.-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLAIN = r"[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2}"
_ADDRESS = re.compile(
    rf"(?P<scheme>[a-z]+)://(?:(?P<user>(?:{_PLAIN})+)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9_.-]*)(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<path>(?:/(?:{_PLAIN}|[@/])*)?)(?P<query>(?:\?(?:{_PLAIN}|[@/?])*)?)"
)


@dataclass(frozen=True)
class Address:
    """Address of a video, or the beginning that addresses share.

    Attributes:
        host: In lower case; an IPv6 address without brackets.
        path: Percent-encoded, without dot segments.
        query: With its question mark; empty without one.
        user: "name" or "name:password", percent-encoded; None without one.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str = field(default="", repr=False)
    user: str | None = field(default=None, repr=False)

    @property
    def authority(self) -> str:
        """The host, in brackets for IPv6, and the port where it is not the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the address without user and query, which may hold secrets."""
        return _core.clip_text(f"{self.scheme}://{self.authority}{self.path}")

    def allows(self, other: Address) -> bool:
        """Whether another address begins with this one, at the boundary of a path segment."""
        below = self.path if self.path.endswith("/") else f"{self.path}/"
        return (
            other.user is None
            and (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)
            and (other.path == self.path or other.path.startswith(below))
        )


def parse_address(text: str) -> Address:
    """Parse an address.

    Raises:
        InvalidArgumentError: The address has another scheme, or programs could read it in different
            ways. The message does not repeat it.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidArgumentError(
            f"it has {len(text)} characters, and at most {_MAX_CHARACTERS} are allowed"
        )
    match = _ADDRESS.fullmatch(text)
    if match is None or match["scheme"] not in DEFAULT_PORTS:
        raise InvalidArgumentError(
            f"it is not an address scheme://host[:port]/path with a scheme of "
            f"{', '.join(DEFAULT_PORTS)} in which other characters are percent-encoded"
        )
    port = DEFAULT_PORTS[match["scheme"]] if match["port"] is None else int(match["port"])
    if not 0 < port < 2**16:
        raise InvalidArgumentError("its port is not between 1 and 65535")
    path = match["path"] or "/"
    decoded = urllib.parse.unquote_to_bytes(path)
    # Some servers leave out what follows a semicolon before they resolve dots.
    dots = any(part.partition(b";")[0] in (b".", b"..") for part in decoded.split(b"/"))
    if dots or decoded.count(b"/") != path.count("/") or set(b"\\\0\r\n") & set(decoded):
        raise InvalidArgumentError(
            "its path has a dot segment, or an encoded slash, backslash, line end or zero byte"
        )
    host = _parse_host(match["host"].lower())
    return Address(match["scheme"], host, port, path, match["query"], match["user"])


def _parse_host(host: str) -> str:
    if not host.startswith("["):
        return host.removesuffix(".")
    try:
        return str(ipaddress.IPv6Address(host[1:-1]))
    except ValueError as error:
        raise InvalidArgumentError("its host is not an IPv6 address in brackets") from error


def parse_cameras(text: str, environment: Mapping[str, str] | None = None) -> dict[str, Address]:
    """Parse the parameter ``cameras``: NAME=ADDRESS with commas between.

    Args:
        text: The parameter.
        environment: Values for ``${NAME}``, which are percent-encoded; None leaves them out.

    Raises:
        InvalidArgumentError: An entry is malformed. The message does not repeat its address.
    """
    cameras: dict[str, Address] = {}
    for number, entry in enumerate(_split(text), 1):
        name, separator, address = (part.strip() for part in entry.partition("="))
        if not separator or not _CAMERA.fullmatch(name) or name in cameras:
            raise InvalidArgumentError(
                f"entry {number} of cameras is not NAME=ADDRESS with a new name of letters, "
                "digits, '.', '_' and '-': write gate=rtsp://user:password@host/path (a comma in "
                "an address as %2C)"
            )
        try:
            cameras[name] = parse_address(_expand(address, environment))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"cameras names a wrong address for {name}: {error}"
            ) from error
    return cameras


def _expand(address: str, environment: Mapping[str, str] | None) -> str:
    def value(match: re.Match[str]) -> str:
        if environment is not None and match[1] not in environment:
            raise InvalidArgumentError(
                f"the server has no environment variable {match[1]}; set it before the server "
                "starts"
            )
        return urllib.parse.quote((environment or {}).get(match[1], "x"), safe="")

    return _VARIABLE.sub(value, address)


def parse_prefixes(text: str) -> tuple[Address, ...]:
    """Parse the parameter ``url_prefixes``: addresses with commas between.

    Raises:
        InvalidArgumentError: An entry is malformed, or has a user or a query.
    """
    prefixes = []
    for number, entry in enumerate(_split(text), 1):
        try:
            prefix = parse_address(entry)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"entry {number} of url_prefixes: {error}") from error
        if prefix.user is not None or prefix.query:
            raise InvalidArgumentError(
                f"entry {number} of url_prefixes has a user or a query: give scheme://host/path, "
                "and addresses with a password in cameras"
            )
        prefixes.append(prefix)
    return tuple(prefixes)


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def find_address(
    source: str, cameras: Mapping[str, Address], prefixes: Sequence[Address]
) -> tuple[str, Address]:
    """Return the name for messages and the address of a client's source.

    Raises:
        InvalidArgumentError: The source is neither a camera nor an allowed address.
    """
    if source in cameras:
        return f"camera {source}", cameras[source]
    try:
        address = parse_address(source)
        if any(prefix.allows(address) for prefix in prefixes):
            return str(address), address
        reason = "no entry of the parameter url_prefixes allows it"
        if address.user is not None:
            reason = "it has a user name, which only the parameter cameras may have"
    except InvalidArgumentError as error:
        reason = str(error) if "://" in source else "it is not a camera of this model"
    known = f" ({', '.join(cameras)})" if cameras else ""
    # The user, the query and what follows them may hold secrets.
    shown = re.sub(r"[^/]*@", "", source[:_MAX_CHARACTERS].partition("?")[0])
    raise InvalidArgumentError(
        f"the source {_core.clip_text(shown)!r} is refused: {reason}; send the name of a camera"
        f"{known}, an address that url_prefixes allows or the bytes of the file as input 'encoded'"
    )
