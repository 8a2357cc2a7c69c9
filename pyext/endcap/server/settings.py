"""Settings of a server, with their defaults, and the choice of free ports."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

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


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How to run a server.

    Attributes:
        tritonserver: A server program or installation; None looks for one (see locate_server).
        models: The only models of the repository that are served, with the steps of ensembles among
            them; none named means all. What a model calls by itself has to be named, too.
        config_name: Where a model has configs/NAME.pbtxt, that is taken in place of its
            config.pbtxt; at least one has to have it. Servers know it from release 2.46 on.
        host: The address to listen on; the default is reachable from this machine only.
        accept_known_vulnerabilities: Lets `host` be another than a loopback address where the
            server's release has known vulnerabilities, or is not known.
        ports: 0 picks a free one.
        cuda_pool_mb: MiB of CUDA memory, on each GPU, for tensors between models; None derives it
            from the models. Without a GPU it does nothing.
        pinned_pool_mb: MiB of pinned host memory; None is Triton's default.
        log_file: Gets everything that the server prints: a path, or a binary file that is open for
            writing and stays the caller's to close.
        echo_problems: Copies warnings and errors to standard error once the server is ready.
        client_shared_memory: Clients may register shared memory, which is refused otherwise.
        verbose: The server prints every request, and all its output goes to standard error (to
            `log_file` where one is given).
        ready_timeout_s: Seconds that a start may take.
        stop_timeout_s: Seconds that a stop may take.
    """

    tritonserver: str | os.PathLike[str] | None = None
    models: tuple[str, ...] = ()
    config_name: str | None = None
    host: str = "127.0.0.1"
    accept_known_vulnerabilities: bool = False
    ports: ServerPorts = field(default_factory=ServerPorts)
    cuda_pool_mb: int | None = None
    pinned_pool_mb: int | None = None
    log_file: str | os.PathLike[str] | IO[bytes] | None = None
    echo_problems: bool = False
    client_shared_memory: bool = False
    verbose: bool = False
    ready_timeout_s: float = 120.0
    stop_timeout_s: float = 30.0


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
