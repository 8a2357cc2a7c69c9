"""Addresses that the hosts of clients' URLs may have, resolved once for each connection.

A connection is made to the addresses that were checked, and the name is not resolved again: a name
server that gives another address to the second query (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from endcap.errors import InvalidArgumentError
from endcap.triton.url_patterns import Url, UrlPattern, find_pattern

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
_6TO4 = ipaddress.ip_network("2002::/16")
_PRIVATE = [
    ipaddress.ip_network(each)
    for each in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",  # behind carriers' NAT
        "fc00::/7",
    )
]
_LOCAL_NAME = "localhost"


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: It has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))


@dataclass(frozen=True)
class UrlRules:
    """Decides on URLs and their addresses.

    Attributes:
        patterns: Those that may be opened; none where there is no pattern.
        allow_private: Whether hosts that a pattern does not give as an address may be in private
            networks (RFC 1918, RFC 4193, RFC 6598). Others than public and private addresses, such
            as loopback and link-local ones, have to be given as an address, or as `localhost`.
        resolve: Returns the addresses of a host as texts, or raises OSError.
    """

    patterns: Sequence[UrlPattern]
    allow_private: bool = False
    resolve: Resolve = resolve

    def addresses(self, url: Url) -> list[str]:
        """Return the addresses to connect to, of which each may be used.

        Raises:
            InvalidArgumentError: The URL or one of its addresses is not allowed, or its host has no
                address.
        """
        pattern = find_pattern(self.patterns, url)
        if pattern is None:
            raise InvalidArgumentError(
                f"{url} is not allowed here: "
                + (
                    "no pattern of the parameter allow_urls fits it"
                    if self.patterns
                    else "this model opens no URLs, its parameter allow_urls is empty; send the "
                    "bytes of the file as input 'encoded'"
                )
            )
        try:
            found = list(self.resolve(url.host, url.port))
        except OSError as error:
            raise InvalidArgumentError(f"the host of {url} has no address ({error})") from error
        if not found:
            raise InvalidArgumentError(f"the host of {url} has no address")
        for each in found:
            self._check(url, pattern, ipaddress.ip_address(each))
        return found

    def _check(self, url: Url, pattern: UrlPattern, address: IpAddress) -> None:
        # An IPv4 address inside one of IPv6 is reached as itself, on this machine or by a router.
        inner = embedded(address)
        if pattern.names_host:
            if url.address is not None:
                return  # the pattern has it
            if url.host == _LOCAL_NAME and inner.is_loopback:
                return
        if is_public(inner):
            return
        if is_private(inner) and self.allow_private:
            return
        kind = "private" if is_private(inner) else "not public"
        advice = (
            "set the parameter allow_private to true"
            if is_private(inner)
            else "give the address itself in a pattern of allow_urls"
        )
        raise InvalidArgumentError(
            f"{url} is not allowed here: its address is {kind}; to allow it, {advice}"
        )


def embedded(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    number = int(address)
    if address in _NAT64 or (number >> 32 == 0 and number > 1):  # `::a.b.c.d`, deprecated
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address in _6TO4:
        return ipaddress.IPv4Address(number >> 80 & 0xFFFFFFFF)
    return address


def is_public(address: IpAddress) -> bool:
    """Whether an address is one of the internet that belongs to one host."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_private(address: IpAddress) -> bool:
    """Whether an address belongs to a private network, and not to this machine or its links."""
    return any(address in network for network in _PRIVATE if network.version == address.version)
