"""Settings of a server, with their defaults, and the choice of free ports."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import weakref
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
        accept_old_server: Lets `host` be other than a loopback address where the server's release
            is more than a year old, or its age is unknown.
        ports: 0 picks a free one.
        cuda_pool_mb: MiB of CUDA memory, on each GPU, for tensors between models; None derives it
            from the models. Without a GPU it does nothing.
        pinned_pool_mb: MiB of pinned host memory; None is Triton's default.
        log_file: Gets everything that the server prints: a path, or a binary file that is open for
            writing and stays the caller's to close.
        echo_problems: Copies warnings and errors to standard error once the server is ready.
        client_shared_memory: Clients may register shared memory, which is refused otherwise. Such
            a client can end the server: by shortening a file that it has registered.
        trace_url: Where the server sends traces by OTLP over HTTP, as http://HOST:4318/v1/traces;
            None sends none. Servers know it from release 24.01 on, and the spans of endcap's stages
            from 24.07 on.
        trace_every: Traces every Nth request; 0 traces only those whose client sends a trace
            context, which are always traced.
        verbose: The server prints every request, and all its output goes to standard error (to
            `log_file` where one is given).
        ready_timeout_s: Seconds that a start may take.
        stop_timeout_s: Seconds that a stop may take.
    """

    tritonserver: str | os.PathLike[str] | None = None
    models: tuple[str, ...] = ()
    config_name: str | None = None
    host: str = "127.0.0.1"
    accept_old_server: bool = False
    ports: ServerPorts = field(default_factory=ServerPorts)
    cuda_pool_mb: int | None = None
    pinned_pool_mb: int | None = None
    log_file: str | os.PathLike[str] | IO[bytes] | None = None
    echo_problems: bool = False
    client_shared_memory: bool = False
    trace_url: str | None = None
    trace_every: int = 0
    verbose: bool = False
    ready_timeout_s: float = 120.0
    stop_timeout_s: float = 30.0


class PortReservation:
    """Ports of a server that has yet to listen, a free one in place of every 0, all different.

    A port that was picked stays bound, so that no other program is given it meanwhile; whoever
    binds with SO_REUSEADDR, as Triton does, can listen on it all the same. A port that was asked
    for is looked at only.

    Raises:
        ServerError: A port that was asked for cannot be listened on, or is named twice.
    """

    def __init__(self, host: str, wanted: ServerPorts) -> None:
        bound = contextlib.ExitStack()
        self._close = weakref.finalize(self, bound.close)
        try:
            self.ports = _reserve(bound, host, wanted)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the ports: the server listens, or will not."""
        self._close()


def _reserve(bound: contextlib.ExitStack, host: str, wanted: ServerPorts) -> ServerPorts:
    resolved: dict[str, int] = {}
    with contextlib.ExitStack() as listeners:  # all are held until the last is known
        for service in ("http", "grpc", "metrics"):
            port = getattr(wanted, service)
            for other, taken in resolved.items():
                if port == taken:
                    raise ServerError(
                        f"--{other}-port and --{service}-port are both {port}; "
                        "give each its own (0 picks a free one)"
                    )
            if port:
                listener = listeners.enter_context(_bind(host, service, port, shared=True))
                _listen(listener, host, service, port)
            else:
                picked = bound.enter_context(_bind_free(host, service))
                port = int(picked.getsockname()[1])
            resolved[service] = port
    return ServerPorts(**resolved)


def _bind_free(host: str, service: str) -> socket.socket:
    """Bind a free port that no outgoing connection is given, which may be listened on."""
    ports = _never_outgoing()
    bound = None
    for port in random.SystemRandom().sample(ports, min(_TRIES, len(ports))):
        with contextlib.suppress(_InUseError):
            bound = _bind(host, service, port, shared=False)
            break
    bound = bound or _bind(host, service, 0, shared=False)
    # Bound without it, the port is nobody else's; set now, it lets the server listen there.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return bound


def _never_outgoing() -> range:
    first, last = _USUAL_OUTGOING
    with contextlib.suppress(OSError, ValueError):
        first, last = (int(port) for port in _OUTGOING.read_text().split())
    below, above = range(_FIRST_FREE, first), range(last + 1, _LAST + 1)
    return max(below, above, key=len)


class _InUseError(ServerError):
    """Somebody else listens there."""


def _bind(host: str, service: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise _refusal(error, host, service, port) from error
    return bound


def _listen(bound: socket.socket, host: str, service: str, port: int) -> None:
    try:
        bound.listen(1)
    except OSError as error:
        raise _refusal(error, host, service, port) from error


def _refusal(error: OSError | OverflowError, host: str, service: str, port: int) -> ServerError:
    number = getattr(error, "errno", 0)
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(error, socket.gaierror) or number == errno.EADDRNOTAVAIL:
        return ServerError(
            f"host {host} is no address of this machine ({reason}); give 127.0.0.1, 0.0.0.0 "
            "or one that it has with --host (`host=` in Python)"
        )
    kind = _InUseError if number == errno.EADDRINUSE else ServerError
    return kind(
        f"port {port} on {host} cannot be used for {service} ({reason}); end the program that "
        f"holds it, or choose another with --{service}-port (0 picks a free one)"
    )
