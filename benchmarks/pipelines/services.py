"""Services of the pipelines: a Triton server with its models, or the service without one."""

from __future__ import annotations

import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paths import ROOT
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.log import LogPump
from endcap.server.process import ServerProcess

_READY_WITHIN_S = 60.0
_STOPS_WITHIN_S = 10.0
_SERVICE = "benchmarks.pipelines.opencv_service"
# A service on this machine is never behind a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServiceError(Exception):
    """The service without Triton cannot run; the message says why."""


@dataclass(frozen=True)
class Running:
    """The addresses of a service, and its process; `grpc` is empty for one that speaks HTTP only.

    Attributes:
        pid: 0 where the client does all the work itself, with the network of the file `network`.
    """

    http: str
    grpc: str
    pid: int
    network: str = ""


@contextmanager
def triton(repository: Path) -> Iterator[Running]:
    """Yield a Triton server on free ports of the loopback. Raises endcap.server.ServerError."""
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    settings = ServerSettings(ports=ports, client_shared_memory=True)
    with TritonServer(repository, settings) as server:
        assert server.pid is not None  # it has just started
        yield Running(server.http_url, f"{settings.host}:{server.ports.grpc}", server.pid)


@contextmanager
def opencv(python: Path, network: Path) -> Iterator[Running]:
    """Yield the FastAPI service, run by the Python of an environment that has its packages.

    Raises ServiceError.
    """
    port = _free_port()
    command = [str(python), "-m", _SERVICE, str(network), str(port)]
    process = ServerProcess(command, {**os.environ, "PYTHONPATH": str(ROOT)}, Path.cwd())
    log = LogPump(process.output)
    try:
        _wait_until_ready(process, log, port)
        yield Running(f"http://127.0.0.1:{port}", "", process.pid)
    finally:
        process.stop(_STOPS_WITHIN_S)
        log.join(_STOPS_WITHIN_S)


def _wait_until_ready(process: ServerProcess, log: LogPump, port: int) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if process.exit_code() is not None:
            log.join(_STOPS_WITHIN_S)
            last = (log.lines() or ["it said nothing"])[-1]
            raise ServiceError(f"the FastAPI service ended: {last}")
        with suppress(OSError), _OPENER.open(f"http://127.0.0.1:{port}/openapi.json", timeout=5):
            return
        time.sleep(0.05)
    raise ServiceError(f"the FastAPI service did not respond within {_READY_WITHIN_S:g} s")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
