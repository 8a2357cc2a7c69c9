"""Triton server on a model repository: start, wait until it is ready, stop."""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from endcap.errors import ServerError
from endcap.server.locate import ServerInstallation
from endcap.server.plan import plan_launch
from endcap.server.process import REFUSAL, ServerProcess, remove_shared_memory
from endcap.server.release import ServerRelease
from endcap.server.settings import PortReservation, ServerPorts, ServerSettings

_POLL_INTERVAL_S = 0.05
# Servers up to 25.07 wait for ever for a stub that has ended without a word.
_REFUSAL_ENDS_WITHIN_S = 5.0
# What the server logs when it listens for each, in this order.
_SERVICES = ("Started GRPCInferenceService", "Started HTTPService", "Started Metrics Service")
_WILDCARD_TO_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_RESPONSE_WITHIN_S = 5.0
# A server on this machine is never behind a proxy, whatever the environment says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, order=True)
class LoadedModel:
    """One version of a model that a server has loaded."""

    name: str
    version: str


class TritonServer:
    """A Triton server as a context manager: ready inside the block, gone after it.

    Whatever keeps the server from serving raises ServerError. Not thread-safe: one thread starts
    and stops it.

    Args:
        repository: A folder of model folders.
        progress: Is called with a message when a download or an installation begins: of a server
            where there is none (see locate_server), and of what its Python models need.
    """

    def __init__(
        self,
        repository: str | os.PathLike[str],
        settings: ServerSettings | None = None,
        *,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._progress = progress
        self.repository = Path(repository)
        self.settings = settings or ServerSettings()
        self.ports: ServerPorts = self.settings.ports  # the ones in use, once it is started
        self.left_out = ""  # optional models that cannot run here, and why, likewise
        self.release: ServerRelease | None = None  # of the server that was started
        self.installation: ServerInstallation | None = None  # likewise
        self._resources = contextlib.ExitStack()
        self._process: ServerProcess | None = None
        self._started_by = os.getpid()
        self._last_lines: list[str] = []  # of the log of the server that was stopped
        self._reservation: PortReservation | None = None

    def __repr__(self) -> str:
        state = f"{self.http_url}, process {self.pid}" if self._process else "not running"
        return f"<TritonServer on {self.repository}, {state}>"

    def __enter__(self) -> TritonServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def http_url(self) -> str:
        """The address for HTTP, for a client on this machine."""
        return f"http://{self._authority(self.ports.http)}"

    @property
    def grpc_url(self) -> str:
        """The address for gRPC, with its scheme, as DetectionClient takes it."""
        return f"grpc://{self._authority(self.ports.grpc)}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics."""
        return f"http://{self._authority(self.ports.metrics)}/metrics"

    @property
    def pid(self) -> int | None:
        """The server's process id, None while none runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and return when all its models are ready."""
        if self._process is not None:
            raise ServerError(
                f"this server already runs as process {self._process.pid}; stop it first"
            )
        self._started_by = os.getpid()
        atexit.register(self.stop)
        try:
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and remove what was made for it; do nothing when none runs.

        In a fork of the process that started the server it does nothing either.
        """
        if os.getpid() != self._started_by:
            return
        try:
            if self._process is not None:
                self._process.stop(self.settings.stop_timeout_s)
                self._last_lines = self._process.log_lines()
        finally:
            self._process = None
            self._resources.close()
            atexit.unregister(self.stop)

    def check_alive(self) -> None:
        """Raise ServerError when the server has ended by itself, or was never started."""
        process = self._running()
        if process.exit_code() is not None:
            raise ServerError(
                f"tritonserver ended with {process.describe_end()}; its last log lines: "
                f"{process.summarise_log()}"
            )

    def models(self) -> list[LoadedModel]:
        """Return the models that the server has loaded, by name.

        Raises:
            ServerError: They cannot be listed.
        """
        # Of the statistics, as the repository's index is closed.
        try:
            with _OPENER.open(f"{self.http_url}/v2/models/stats", timeout=_RESPONSE_WITHIN_S) as r:
                models = json.load(r)["model_stats"]
        except OSError as error:
            self.check_alive()
            raise ServerError(
                f"the models of the server cannot be listed ({error}); its last log lines: "
                f"{self._running().summarise_log()}"
            ) from error
        return sorted(LoadedModel(each["name"], each["version"]) for each in models)

    def log_lines(self) -> list[str]:
        """Return the last lines that the server printed."""
        return self._process.log_lines() if self._process else self._last_lines

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerError("no server runs; start it first")
        return self._process

    def _authority(self, port: int) -> str:
        host = _WILDCARD_TO_LOOPBACK.get(self.settings.host, self.settings.host)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _launch(self) -> None:
        try:
            scratch = Path(tempfile.mkdtemp(prefix="endcap-serve-"))
        except OSError as error:
            raise ServerError(
                f"cannot create a temporary folder ({error.strerror}); set TMPDIR to a folder that "
                "you may write to"
            ) from error
        # Not a TemporaryDirectory: a fork of this process would remove it at its exit.
        self._resources.callback(shutil.rmtree, scratch, ignore_errors=True)
        plan = plan_launch(self.repository, self.settings, scratch, self._progress)
        self._reservation = plan.reservation
        self._resources.callback(plan.reservation.close)
        self.ports, self.left_out = plan.reservation.ports, plan.left_out
        self.release, self.installation = plan.release, plan.installation
        log_file = self._open_log_file()
        show_all = log_file is None and self.settings.verbose
        self._resources.callback(remove_shared_memory, plan.shared_memory_prefix)
        self._process = ServerProcess(
            plan.command,
            plan.environment,
            plan.working_directory,
            log_file=log_file,
            terminal=sys.stderr.buffer if show_all or self.settings.echo_problems else None,
            show_all=show_all,
            renamed=(os.fsencode(plan.repository), os.fsencode(self.repository)),
        )

    def _open_log_file(self) -> IO[bytes] | None:
        given = self.settings.log_file
        if given is None or not isinstance(given, (str, os.PathLike)):
            return given
        try:
            return self._resources.enter_context(open(given, "ab"))
        except OSError as error:
            raise ServerError(f"log file {given} cannot be written: {error.strerror}") from error

    def _wait_until_ready(self) -> None:
        process, deadline = self._running(), time.monotonic() + self.settings.ready_timeout_s
        # The log says that it is our server which responds, not another one on the same port.
        refused_at: float | None = None
        while not (self._listens() and is_ready(self.http_url)):
            self.check_alive()
            if refused_at is None and any(n.startswith(REFUSAL) for n in process.log_lines()):
                refused_at = time.monotonic()
            if refused_at is not None and time.monotonic() > refused_at + _REFUSAL_ENDS_WITHIN_S:
                process.stop(_POLL_INTERVAL_S)  # it would wait for ever
                raise ServerError(f"the server cannot get ready: {process.summarise_log()}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"the server was not ready after {self.settings.ready_timeout_s:g} s; its last "
                    f"log lines: {process.summarise_log()}"
                )
            time.sleep(_POLL_INTERVAL_S)
        self.check_alive()
        if self._reservation is not None:
            self._reservation.close()
        process.show_problems()

    def _listens(self) -> bool:
        lines = self.log_lines()
        return all(any(service in line for line in lines) for service in _SERVICES)


def is_ready(http_url: str) -> bool:
    """Return whether the server responds and every model is ready."""
    try:
        with _OPENER.open(f"{http_url}/v2/health/ready", timeout=_RESPONSE_WITHIN_S) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False  # not yet: the caller watches the process and the clock
