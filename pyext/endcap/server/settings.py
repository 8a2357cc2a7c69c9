"""What a user may decide about a server; the defaults stand here alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import IO

from endcap.server.ports import ServerPorts


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
