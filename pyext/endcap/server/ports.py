"""Ports to listen on: free ones on demand, and a clear sentence for one that is taken."""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass

from endcap.server.errors import ServerError


@dataclass(frozen=True, kw_only=True)
class ServerPorts:
    """Ports of the three services; 0 asks for a free one."""

    http: int = 8000
    grpc: int = 8001
    metrics: int = 8002


def resolve_ports(host: str, wanted: ServerPorts) -> ServerPorts:
    """Returns `wanted` with a free port in place of every 0, all different.

    Raises ServerError when a port that was asked for cannot be listened on, or is named twice.
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
            resolved[service] = _listen_once(held, host, service, port)
    return ServerPorts(**resolved)


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
        raise ServerError(
            f"port {port} on {host} cannot be used for {service} ({reason}); end the program that "
            f"holds it, or choose another with --{service}-port (0 picks a free one)"
        ) from error
    return int(listener.getsockname()[1])
