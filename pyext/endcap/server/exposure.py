"""Refusal to open a server with known vulnerabilities to other machines."""

from __future__ import annotations

import ipaddress
import socket

from endcap.server.advisories import find_advisories, first_fixed, summarise
from endcap.server.release import ServerRelease
from endcap.server.settings import ServerSettings
from endcap.triton.errors import ServerError

_REMEDY = (
    "run NVIDIA's current container, listen on 127.0.0.1 behind a proxy, or take the risk with "
    "--accept-known-vulnerabilities"
)


def check_exposure(server: ServerRelease, settings: ServerSettings) -> None:
    """Raise ServerError where `settings.host` would open a vulnerable server to other machines.

    A server of unknown release counts as vulnerable. `settings.accept_known_vulnerabilities` lets
    all pass.
    """
    if settings.accept_known_vulnerabilities or is_loopback(settings.host):
        return
    opened = f"host '{settings.host}' is no loopback address"
    if server.release is None:
        raise ServerError(
            f"{opened}, and whether this server has known vulnerabilities cannot be told "
            f"({server}); {_REMEDY}"
        )
    advisories = find_advisories(server.release)
    if advisories:
        raise ServerError(
            f"{opened}, and {server} has {summarise(advisories)}, all fixed in "
            f"{first_fixed(advisories)}; {_REMEDY}"
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens on `host`.

    A name counts by its addresses. One that has none cannot be listened on: it counts as loopback,
    and the check of the ports refuses it.
    """
    if not host:  # all interfaces
        return False
    return all(map(_is_loopback_address, _addresses(host)))


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def _is_loopback_address(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
