"""A HAProxy on this machine, with the configuration of `deploy/` or of a test."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_READY_WITHIN_S = 30
_STATE_WITHIN_S = 30


def haproxy_program() -> str:
    """The program, which Debian has in a folder that is not on every user's PATH."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    program = shutil.which("haproxy", path=path)
    assert program is not None, "install haproxy: scripts/system_packages.sh test"
    return program


class HaProxy:
    """Its runtime interface, at the Unix socket `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def command(self, text: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.path))
            connection.sendall(f"{text}\n".encode())
            received = b""
            while part := connection.recv(1 << 16):
                received += part
        return received.decode()

    def set_state(self, server: str, state: str) -> None:
        """server: such as http/a; state: ready, drain or maint."""
        assert self.command(f"set server {server} state {state}").strip() == ""

    def statistics(self, server: str) -> dict[str, str]:
        """HAProxy's columns of one server, such as http/a: status, scur, ..."""
        rows = csv.DictReader(self.command("show stat").removeprefix("# ").splitlines())
        (found,) = [row for row in rows if f"{row['pxname']}/{row['svname']}" == server]
        return found

    def status(self, server: str) -> str:
        return self.statistics(server)["status"]

    def wait_for_status(self, server: str, status: str) -> None:
        deadline = time.monotonic() + _STATE_WITHIN_S
        while self.status(server) != status:
            assert time.monotonic() < deadline, f"{server} is {self.status(server)}, not {status}"
            time.sleep(0.05)

    def wait_until_idle(self, server: str) -> None:
        """Until no request is at the server any more."""
        deadline = time.monotonic() + _STATE_WITHIN_S
        while self.statistics(server)["scur"] != "0":
            assert time.monotonic() < deadline, f"{server} still has requests"
            time.sleep(0.05)


@contextlib.contextmanager
def run_haproxy(
    configuration: Path, folder: Path, variables: Mapping[str, str]
) -> Iterator[HaProxy]:
    """Runs it in the foreground until the end of the block.

    Args:
        configuration: Its file, whose stats socket is PROXY_SOCKET.
        folder: For its log.
        variables: Of its environment.
    """
    # The path of a Unix socket has 107 characters at most.
    path = Path(os.path.relpath(folder / "proxy.sock"))
    log = folder / "haproxy.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [haproxy_program(), "-db", "-f", str(configuration)],
            env={**os.environ, **variables, "PROXY_SOCKET": str(path)},
            stdout=file,
            stderr=file,
        )
    try:
        proxy = HaProxy(path)
        deadline = time.monotonic() + _READY_WITHIN_S
        while not _responds(proxy):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


def _responds(proxy: HaProxy) -> bool:
    with contextlib.suppress(OSError):
        return bool(proxy.command("show info"))
    return False
