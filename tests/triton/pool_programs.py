"""Programs that use a pool, each run in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from running_server import RunningServer

_HERE = Path(__file__).resolve().parent
_PATHS = [str(_HERE), str(_HERE.parent / "support"), str(_HERE.parent)]

# The first part of a program; its arguments are PROTOCOL and AUTHORITY.
SYNC = """
import os, sys, threading, time
import numpy as np
from shared_memory_models import IMAGE, OTHER, REGION_BYTES, call, expected
from endcap.client.address import parse_address
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions
from endcap.client import SharedMemoryPool

connection = Connection(parse_address(sys.argv[2], sys.argv[1]), ConnectionOptions(timeout_s=20))

def infer(pool, image=IMAGE, model="pre"):
    with pool.acquire() as lease:
        request, output = call(lease, image, model)
        return lease.read(output, pool.infer(lease, request)).copy()

def tell(*words):
    print(*words, flush=True)

pool = SharedMemoryPool(
    connection, regions=2, region_bytes=REGION_BYTES, handle_sigterm=True
)
assert np.array_equal(infer(pool), expected(IMAGE))
tell(*pool.names)
"""

ASYNC = """
import asyncio, os, sys
import numpy as np
from shared_memory_models import IMAGE, OTHER, REGION_BYTES, call, expected
from endcap.client.address import parse_address
from endcap.client.connection_aio import AsyncConnection
from endcap.client.options import ConnectionOptions
from endcap.client import AsyncSharedMemoryPool

async def infer(pool, image=IMAGE, model="pre"):
    async with pool.acquire() as lease:
        request, output = call(lease, image, model)
        return lease.read(output, await pool.infer(lease, request)).copy()

def tell(*words):
    print(*words, flush=True)

async def main():
    options = ConnectionOptions(timeout_s=20)
    async with AsyncConnection(parse_address(sys.argv[2], sys.argv[1]), options) as connection:
        pool = await AsyncSharedMemoryPool.create(
            connection, regions=2, region_bytes=REGION_BYTES, handle_sigterm=True
        )
        assert np.array_equal(await infer(pool), expected(IMAGE))
        tell(*pool.names)
        await use(pool)

"""


class Program:
    """A running program; its first line of output was the names of its pool's regions."""

    def __init__(self, process: subprocess.Popen[str], names: list[str]) -> None:
        self._process = process
        self.names = set(names)

    def line(self) -> str:
        """Returns the next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def end(self, timeout_s: float = 30) -> tuple[int, str]:
        """Waits for its end; returns its exit status and what else it printed, errors too."""
        rest, _ = self._process.communicate(timeout=timeout_s)
        return self._process.returncode, rest


@contextlib.contextmanager
def run_program(text: str, server: RunningServer, protocol: str) -> Iterator[Program]:
    """Runs a program; it is killed at the end where it still runs."""
    paths = os.pathsep.join([*_PATHS, *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", text, protocol, getattr(server, protocol)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    with process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            names = first.split()
            assert all(name.startswith("endcap-") for name in names), first + process.stdout.read()
            yield Program(process, names)
        finally:
            process.kill()
