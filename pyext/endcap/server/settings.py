"""Settings of a server, with their defaults, and the choice of free ports."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import weakref
from dataclasses import dataclass, field
from typing import IO

from endcap.errors import ServerError

# Below those of outgoing connections, which could take a port while a server is restarted on it.
_PICKED_FROM = range(10000, 32768)
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
        log_file: Gets everything that the server prints: a path, to which it is appended, or a
            binary file that is open for writing and stays the caller's to close.
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
        ServerError: A port that was asked for cannot be listened on.
    """

    def __init__(self, host: str, wanted: ServerPorts) -> None:
        self._host = host
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._bound = contextlib.ExitStack()
        self.close = weakref.finalize(self, self._bound.close)  # the server listens, or will not
        ports: dict[str, int] = {}
        try:
            for service, port in vars(wanted).items():
                try:
                    ports[service] = self._look_at(port) if port else self._pick(wanted)
                except (OSError, OverflowError) as error:
                    raise _refusal(error, host, service, port) from error
        except BaseException:
            self.close()
            raise
        self.ports = ServerPorts(**ports)

    def _look_at(self, port: int) -> int:
        with socket.socket(self._family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, port))
            listener.listen(1)
        return port

    def _pick(self, wanted: ServerPorts) -> int:
        for port in random.SystemRandom().sample(_PICKED_FROM, min(_TRIES, len(_PICKED_FROM))):
            bound = self._bound.enter_context(socket.socket(self._family))
            try:
                bound.bind((self._host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                if port not in vars(wanted).values():
                    # Bound without it, the port is nobody else's; the server can listen with it.
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    return port
        raise OSError(errno.EADDRINUSE, "no free port was found")


def _refusal(error: OSError | OverflowError, host: str, service: str, port: int) -> ServerError:
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(error, socket.gaierror) or getattr(error, "errno", 0) == errno.EADDRNOTAVAIL:
        return ServerError(
            f"host {host} is not an address of this machine ({reason}); give 127.0.0.1, 0.0.0.0 "
            "or one that it has with --host (`host=` in Python)"
        )
    return ServerError(
        f"port {port} on {host} cannot be used for {service} ({reason}); end the program that "
        f"holds it, or choose another with --{service}-port (0 picks a free one)"
    )
