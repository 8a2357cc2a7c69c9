"""URLs that a server may open for its clients, and the patterns that allow them.

A URL is compared in parts, after it has been brought into one form; nothing is compared as text
that stands in it as the client wrote it.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from endcap import _core
from endcap.errors import InvalidArgumentError

DEFAULT_PORTS = {"http": 80, "https": 443, "rtsp": 554, "rtsps": 322}
_LONGEST = 2048
_HOST = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?")
_HOST_PATTERN = re.compile(r"[a-z0-9_.*-]+")
# What C libraries read as an IPv4 address beside its usual form: 0x7f.1, 2130706433, 0177.0.0.1.
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_UNRESERVED = re.compile(r"%([0-9a-fA-F]{2})")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\uffff\\<>\"^`{|}]")
_ANY = "*"


@dataclass(frozen=True)
class Url:
    """A URL in one form.

    Attributes:
        scheme: In lower case.
        user: "name" or "name:password" as in the URL, None where it has none.
        host: In lower case without a dot at its end; an IPv6 address without brackets.
        port: The scheme's where the URL names none.
        path: Without dot segments, and with no unreserved character encoded; "/" at least.
        query: What follows `?`, as it is; empty without one.
    """

    scheme: str
    user: str | None
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The address where the host is one."""
        return _address(self.host)

    @property
    def target(self) -> str:
        """Path and query."""
        return self.path + (f"?{self.query}" if self.query else "")

    @property
    def authority(self) -> str:
        """The host, in brackets for IPv6, with the port where it is not the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL without user and password, clipped, for messages and logs."""
        return _core.clip_text(f"{self.scheme}://{self.authority}{self.path}")


def parse_url(text: str) -> Url:
    """Return a client's URL in one form.

    Raises:
        InvalidArgumentError: It is none, of a scheme that is never opened, or written in a way that
            programs read differently.
    """
    if len(text) > _LONGEST:
        raise InvalidArgumentError(
            f"the URL has {len(text)} characters; the most that are taken are {_LONGEST}"
        )
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in DEFAULT_PORTS:
        raise InvalidArgumentError(
            f"the source begins with {_start_of(text)!r}; URLs of {', '.join(DEFAULT_PORTS)} are "
            "opened, and nothing else"
        )
    if _FORBIDDEN.search(text):
        raise InvalidArgumentError(
            "the URL has a space, a control character, a backslash or another character that has "
            "to be percent-encoded; encode it"
        )
    authority, path, query = _split(rest)
    user, host, port = _split_authority(authority, scheme)
    return Url(scheme, user, _host(host), port, _path(path), query)


@dataclass(frozen=True)
class UrlPattern:
    """A pattern `scheme://[user@]host[:port]/path`, in which `*` stands for any characters.

    Attributes:
        text: As it was given.
        user: None allows URLs without user and password only.
        port: None for any.
    """

    text: str
    scheme: str
    user: str | None
    host: str
    port: int | None
    path: str

    @property
    def names_host(self) -> bool:
        """Whether it names one host."""
        return _ANY not in self.host

    def allows(self, url: Url) -> bool:
        """Whether it allows a URL, whose query may be any."""
        if self.user is None:
            user_fits = url.user is None
        else:
            user_fits = url.user is not None and _fits(self.user, url.user)
        return (
            user_fits
            and url.scheme == self.scheme
            and (self.port is None or url.port == self.port)
            and _fits(self.host, url.host)
            and _fits(self.path, url.path)
        )


def parse_patterns(text: str) -> tuple[UrlPattern, ...]:
    """Return the patterns of a parameter, which has spaces between them.

    Raises:
        InvalidArgumentError: One of them is none; the message says what is wrong with it.
    """
    return tuple(_parse_pattern(part) for part in text.split())


def find_pattern(patterns: Sequence[UrlPattern], url: Url) -> UrlPattern | None:
    """Return the first pattern that allows a URL, one that names its host before others."""
    fitting = [each for each in patterns if each.allows(url)]
    return next((each for each in fitting if each.names_host), fitting[0] if fitting else None)


def _parse_pattern(text: str) -> UrlPattern:
    form = f"allow_urls has the pattern '{text}'; give scheme://host[:port]/path"
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in DEFAULT_PORTS:
        raise InvalidArgumentError(f"{form}, with a scheme of {', '.join(DEFAULT_PORTS)}")
    authority, slash, path = rest.partition("/")
    if not slash:
        raise InvalidArgumentError(f"{form}: the path is missing, /* allows any")
    if set("?#") & set(path):
        raise InvalidArgumentError(f"{form} without a query: URLs may have any")
    user, at, place = authority.rpartition("@")
    host, port = _split_port(place)
    number: int | None = DEFAULT_PORTS[scheme]
    if port == _ANY:
        number = None
    elif port is not None:
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
            raise InvalidArgumentError(f"{form}: the port is no number from 1 to 65535, nor *")
        number = int(port)
    host = host.lower()
    if _ANY in host:
        if not _HOST_PATTERN.fullmatch(host):
            raise InvalidArgumentError(f"{form}: the host has characters that no host has")
    else:
        try:
            host = _host(host)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{form}: {error}") from error
    return UrlPattern(text, scheme, user if at else None, host, number, f"/{path}")


def _fits(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split(_ANY))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


def _split(rest: str) -> tuple[str, str, str]:
    """Return authority, path and query; the fragment, which no server gets, is left out."""
    rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    return authority, slash + path, query


def _split_authority(authority: str, scheme: str) -> tuple[str | None, str, int]:
    user, at, place = authority.rpartition("@")
    if "@" in user:
        raise InvalidArgumentError("the URL has more than one @ before its path; encode it as %40")
    host, port = _split_port(place)
    if port is None or port == "":
        return (user if at else None), host, DEFAULT_PORTS[scheme]
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise InvalidArgumentError("the URL's port is no number from 1 to 65535")
    return (user if at else None), host, int(port)


def _split_port(place: str) -> tuple[str, str | None]:
    """Return the host, an IPv6 address in its brackets, and the port, None without a colon."""
    if place.startswith("["):
        host, bracket, port = place.partition("]")
        if port.startswith(":"):
            return host + bracket, port[1:]
        return place, None
    host, colon, port = place.partition(":")
    return host, port if colon else None


def _host(host: str) -> str:
    """Return a host in one form.

    Raises:
        InvalidArgumentError: It is no host, or a number in one of the forms that are read
            differently.
    """
    host = host.lower()
    if host.startswith("["):
        address = _address(host[1:-1]) if host.endswith("]") else None
        if not isinstance(address, ipaddress.IPv6Address) or address.scope_id is not None:
            raise InvalidArgumentError("the URL's host is no IPv6 address in brackets")
        return str(address)
    host = host.removesuffix(".")
    if len(host) > 253 or not _HOST.fullmatch(host) or ".." in host:
        raise InvalidArgumentError(
            "the URL's host is no name or address; give names in ASCII (xn--... for others)"
        )
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and _address(host) is None:
        raise InvalidArgumentError(
            "the URL's host is a number that programs read differently; give an address of four "
            "numbers, as 192.0.2.1"
        )
    return host


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _path(path: str) -> str:
    """Return a path in one form: what needs no encoding decoded, and no dot segments."""

    def decode(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        if character in "/\\\0":
            raise InvalidArgumentError(
                "the URL's path has an encoded slash, backslash or zero byte, which servers read "
                "differently"
            )
        is_unreserved = character.isascii() and (character.isalnum() or character in "-._~")
        return character if is_unreserved else match[0].upper()

    decoded = _UNRESERVED.sub(decode, path)
    kept: list[str] = []
    parts = decoded.split("/")[1:] if decoded else [""]
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _start_of(text: str) -> str:
    start = re.split("[:/?#]", text, maxsplit=1)[0]
    shown = start[:20]
    return f"{shown}:" if text[len(start) :].startswith(":") and shown == start else shown


def redirected(url: Url, location: str) -> Url:
    """Return the URL that a response redirects to.

    Raises:
        InvalidArgumentError: As for `parse_url`.
    """
    origin = f"{url.scheme}://{url.authority}{url.target}"
    return parse_url(urllib.parse.urljoin(origin, location.strip()))
