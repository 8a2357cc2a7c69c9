"""Ports to listen on: free ones on demand, and a clear message for one that is taken."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from dataclasses import dataclass
from pathlib import Path

from endcap.triton.errors import ServerError

# Where Linux takes the ports of outgoing connections from, and what that is unless it was set.
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_OUTGOING = (32768, 60999)
_FIRST_FREE = 10000  # many a service listens below
_LAST = 65535
_TRIES = 50


@dataclass(frozen=True, kw_only=True)
class ServerPorts:
    """Ports of the three services; 0 asks for a free one."""

    http: int = 8000
    grpc: int = 8001
    metrics: int = 8002


def resolve_ports(host: str, wanted: ServerPorts) -> ServerPorts:
    """Return `wanted` with a free port in place of every 0, all different.

    Raises:
        ServerError: A port that was asked for cannot be listened on, or is named twice.
    """
    resolved: dict[str, int] = {}
    with contextlib.ExitStack() as held:  # all are held until the last is known
        for service in ("http", "grpc", "metrics"):
            port = getattr(wanted, service)
            for other, taken in resolved.items():
                if port == taken:
                    raise ServerError(
                        f"--{other}-port and --{service}-port are both {port}; "
                        "give each its own (0 picks a free one)"
                    )
            resolved[service] = (
                _listen_once(held, host, service, port) if port else _free(held, host, service)
            )
    return ServerPorts(**resolved)


def _free(held: contextlib.ExitStack, host: str, service: str) -> int:
    """Listen on a free port that no outgoing connection is given.

    The server listens seconds later: until then a port of that kind might be taken again.
    """
    ports = _never_outgoing()
    for port in random.SystemRandom().sample(ports, min(_TRIES, len(ports))):
        with contextlib.suppress(_InUseError):
            return _listen_once(held, host, service, port)
    return _listen_once(held, host, service, 0)


def _never_outgoing() -> range:
    first, last = _USUAL_OUTGOING
    with contextlib.suppress(OSError, ValueError):
        first, last = (int(port) for port in _OUTGOING.read_text().split())
    below, above = range(_FIRST_FREE, first), range(last + 1, _LAST + 1)
    return max(below, above, key=len)


class _InUseError(ServerError):
    """Somebody else listens there."""


def _listen_once(held: contextlib.ExitStack, host: str, service: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, socket.gaierror) or getattr(error, "errno", 0) == errno.EADDRNOTAVAIL:
            raise ServerError(
                f"host {host} is no address of this machine ({reason}); give 127.0.0.1, 0.0.0.0 "
                "or one that it has with --host"
            ) from error
        kind = _InUseError if getattr(error, "errno", 0) == errno.EADDRINUSE else ServerError
        raise kind(
            f"port {port} on {host} cannot be used for {service} ({reason}); end the program that "
            f"holds it, or choose another with --{service}-port (0 picks a free one)"
        ) from error
    return int(listener.getsockname()[1])
