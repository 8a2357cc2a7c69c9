"""A server for benchmarks, with options that `TritonServer` does not have."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from endcap._system.scratch import scratch_folder
from endcap.server import ServerPorts, ServerSettings
from endcap.server.launch import is_ready
from endcap.server.leftovers import remove_shared_memory
from endcap.server.log import LogPump
from endcap.server.plan import plan_launch
from endcap.server.process import ServerProcess

_READY_WITHIN_S, _ENDS_WITHIN_S = 120.0, 30.0


@dataclass(frozen=True)
class RawServer:
    """A server that runs."""

    ports: ServerPorts
    pid: int

    @property
    def grpc(self) -> str:
        """The gRPC address, as tritonclient takes it."""
        return f"127.0.0.1:{self.ports.grpc}"

    @property
    def http(self) -> str:
        """The HTTP address, as tritonclient takes it."""
        return f"127.0.0.1:{self.ports.http}"


@contextlib.contextmanager
def raw_server(
    repository: Path,
    *options: str,
    without: tuple[str, ...] = (),
    cpus: Set[int] | None = None,
    client_shared_memory: bool = False,
) -> Iterator[RawServer]:
    """Run a server on free ports, and yield it when it is ready.

    Args:
        repository: The model repository.
        options: Of tritonserver, after those of `endcap serve`.
        without: Options of `endcap serve` that begin so are left out.
        cpus: The CPUs of the server; None: those of the caller.
        client_shared_memory: As in ServerSettings.

    Raises:
        RuntimeError: The server does not get ready; with its log.
    """
    settings = ServerSettings(
        ports=ServerPorts(http=0, grpc=0, metrics=0), client_shared_memory=client_shared_memory
    )
    with scratch_folder("benchmark") as scratch:
        plan = plan_launch(repository, settings, scratch)
        command = [word for word in plan.command if not without or not word.startswith(without)]
        with _on(cpus):
            process = ServerProcess([*command, *options], plan.environment, plan.working_directory)
        log = LogPump(process.output)
        try:
            _wait_until_ready(plan.ports, process, log)
            plan.reservation.close()
            yield RawServer(plan.ports, process.pid)
        finally:
            process.stop(_ENDS_WITHIN_S)
            log.join(_ENDS_WITHIN_S)
            remove_shared_memory(plan.shared_memory_prefix)


@contextlib.contextmanager
def _on(cpus: Set[int] | None) -> Iterator[None]:
    """Run the block, and what it starts, on some CPUs."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _wait_until_ready(ports: ServerPorts, process: ServerProcess, log: LogPump) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while not is_ready(f"http://127.0.0.1:{ports.http}"):
        if process.exit_code() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server did not start:\n" + "\n".join(log.lines()))
        time.sleep(0.1)
