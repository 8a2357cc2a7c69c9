"""Protection against requests of other web sites, and against foreign content in the page."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from aiohttp import web

from endcap.tools.web.responses import error_response

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
# The whole of a Host header: a name or a number, in brackets that of IPv6, and perhaps a port.
_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}


def guard(host: str) -> Middleware:
    """Return the middleware that rejects requests for or from another site with status 403.

    Args:
        host: The address that the server listens on. A name that resolves to this machine (DNS
            rebinding) is refused by its Host header, another site's script by its Origin header.
    """

    @web.middleware
    async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
        authority = ", ".join(request.headers.getall("Host", []))
        if not _is_ours(authority, host):
            return error_response(
                403,
                f"the request is for {authority or 'no host'}, which is not this server's name; "
                f"open the page at {' or '.join(sorted(_names(host)))}",
            )
        own = [f"{scheme}://{authority.lower()}" for scheme in ("http", "https")]
        for origin in request.headers.getall("Origin", []):
            if origin.lower() not in own:
                return error_response(
                    403, f"the request comes from {origin}; use this server's own page"
                )
        return await handler(request)

    return refuse_other_sites


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add headers (`on_response_prepare`) with which the browser loads from this server only."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _is_ours(authority: str, host: str) -> bool:
    given = _AUTHORITY.fullmatch(authority.lower())
    name = (given["address"] or given["name"]) if given else ""
    # An address cannot be rebound, only a name can.
    return name in _names(host) or (host in _EVERY_ADDRESS and _is_address(name))


def _names(host: str) -> frozenset[str]:
    return _THIS_MACHINE | ({host.lower()} - _EVERY_ADDRESS)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
