"""Triton servers that run on this machine, and where their metrics are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PROGRAM = "tritonserver"
_DEFAULT_PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
_LOOPBACK_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_FALSE = ("false", "0", "off", "no")  # of --allow-metrics, in any case


@dataclass(frozen=True)
class LocalServer:
    """A server, by the arguments of its process.

    Attributes:
        host: Where this machine reaches its metrics.
        http_port: Of HTTP, as grpc_port of gRPC.
        metrics_port: None where it runs without metrics.
    """

    pid: int
    host: str
    http_port: int
    grpc_port: int
    metrics_port: int | None

    @property
    def metrics_url(self) -> str | None:
        """The address of its metrics; None without any."""
        if self.metrics_port is None:
            return None
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.metrics_port}/metrics"

    def describe(self) -> str:
        """Return the option that chooses it, with its process id."""
        without = "" if self.metrics_port is not None else ", without metrics"
        return f"--url {self.host}:{self.grpc_port} (process {self.pid}{without})"


def find_local_servers() -> list[LocalServer]:
    """Return the servers whose ports this process can reach, as far as /proc shows them.

    Those of other users are not seen, unless this is root, nor those in containers with a network
    of their own, whose ports are others here.
    """
    found = []
    for pid, arguments in _processes():
        with contextlib.suppress(ValueError):  # a port that is no number: it will end by itself
            found.append(read_arguments(pid, arguments))
    return sorted(found, key=lambda server: server.pid)


def read_arguments(pid: int, arguments: Sequence[str]) -> LocalServer:
    """Return a server by the arguments of its process, after the program's name.

    Raises:
        ValueError: A port is no number.
    """
    options = _options(arguments)
    ports = {
        name: int(options.get(f"--{name}-port", port)) for name, port in _DEFAULT_PORTS.items()
    }
    address = options.get("--metrics-address", options.get("--http-address", ""))
    without = options.get("--allow-metrics", "").lower() in _FALSE
    return LocalServer(
        pid,
        _LOOPBACK_ADDRESSES.get(address, address),
        ports["http"],
        ports["grpc"],
        None if without else ports["metrics"],
    )


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Return options by name, of --name=value and of --name value; the last one counts."""
    options: dict[str, str] = {}
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            options[name] = value if equals else following
    return options


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield id and arguments of each server process that shares this process's network."""
    try:
        network = os.readlink(_PROC / "self" / "ns" / "net")
        entries = [entry for entry in _PROC.iterdir() if entry.name.isdecimal()]
    except OSError:  # no Linux, or a hidden /proc
        return
    for entry in entries:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if os.path.basename(os.fsdecode(words[0])) != _PROGRAM:
                continue
            if os.readlink(entry / "ns" / "net") == network:
                yield int(entry.name), [os.fsdecode(word) for word in words[1:]]
