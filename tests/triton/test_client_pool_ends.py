"""However a program or its server ends: its regions go, and nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.client.regions import FOLDER
from tests.support.tcp_proxy import proxy_to
from tests.triton.client_layouts import HTTP, Layout
from tests.triton.running_server import RunningServer, run_server
from tests.triton.shared_memory_models import (
    IMAGE,
    OPTIONS,
    OTHER,
    SLOW_S,
    Pools,
    expected,
    infer,
    write_all,
)

ROOT = Path(__file__).resolve().parents[2]

BEGIN = """
import os, sys, threading, time
from types import SimpleNamespace
from tests.triton.client_layouts import Layout
from tests.triton.shared_memory_models import IMAGE, OTHER, Pools, expected, infer
pools = Pools(Layout(*sys.argv[1:3]), SimpleNamespace(address=sys.argv[3]))
pool = pools(regions=2)
assert (infer(pool, IMAGE) == expected(IMAGE)).all()
print(*pool.names, flush=True)
"""


@contextlib.contextmanager
def program(text: str, server: Any, layout: Layout = HTTP) -> Iterator[tuple[Any, set[str]]]:
    """Runs a program; yields it with the names of its regions."""
    process: Any = subprocess.Popen(
        [
            *(sys.executable, "-c", BEGIN + text),
            *(layout.kind, layout.protocol, layout.authority(server)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    with process:
        try:
            first = process.stdout.readline()
            assert first.startswith("endcap-"), first + process.stdout.read()
            yield process, set(first.split())
        finally:
            process.kill()


def left(names: set[str], pools: Pools) -> set[str]:
    """Those of the regions that there are in /dev/shm or at the server."""
    return names & ({path.name for path in FOLDER.iterdir()} | pools.registered())


IN_A_THREAD = "threading.Thread(target=infer, args=(pool, IMAGE, 'slow'), daemon=True).start()"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("with pool.acquire() as lease:\n    raise KeyError('mine')", 1),
        (f"{IN_A_THREAD}\ntime.sleep(0.2)", 0),
    ],
    ids=["plain end", "sys.exit", "exception", "daemon thread"],
)
def test_the_end_of_a_program_leaves_nothing(
    text: str, status: int, pools: Pools, pool_server: RunningServer
) -> None:
    with program(text, pool_server, pools.layout) as (process, names):
        assert (process.wait(30), left(names, pools)) == (status, set())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_regions_of_a_killed_program_go_with_the_next_pool(
    number: signal.Signals, pools: Pools, pool_server: RunningServer
) -> None:
    text = "print('sending', flush=True)\ninfer(pool, IMAGE, 'slow')"
    with program(text, pool_server, pools.layout) as (process, names):
        process.stdout.readline()
        pools(regions=1).close()
        assert left(names, pools) == names  # it lives
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(30) == -number
        assert left(names, pools) == names
        pools(regions=1)
        assert not names & {path.name for path in FOLDER.iterdir()}
    time.sleep(SLOW_S)  # what a request used goes with a later pool
    pools(regions=1)
    assert not left(names, pools)


def test_a_program_ends_although_the_server_hangs(pool_server: RunningServer) -> None:
    text = "more = [pools(regions=4) for _ in range(3)]\nprint()\nsys.stdin.readline()"
    with proxy_to(pool_server.http) as proxy, program(text, proxy) as (process, _):
        process.stdout.readline()
        proxy.stall()
        begin = time.monotonic()
        assert process.communicate(timeout=30) == ("", None)
        assert time.monotonic() - begin < 20
        assert not [path for path in FOLDER.iterdir() if f"-{process.pid}-" in path.name]


def test_no_forked_child_breaks_its_parents_pool(pool_server: RunningServer, pools: Pools) -> None:
    text = """
from endcap.errors import UnsupportedError
def use():
    try:
        infer(pool, IMAGE)
    except UnsupportedError as error:
        os._exit("parent" not in str(error))
for child in (lambda: sys.exit(0), lambda: os._exit(0), pool.close, use):
    process = os.fork()
    if process == 0:
        child()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, child
    assert (infer(pool, OTHER) == expected(OTHER)).all()
with pool.acquire():
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
assert (infer(pool, OTHER) == expected(OTHER)).all()
print("usable", flush=True)
sys.stdin.read()
"""
    with program(text, pool_server) as (process, names):
        assert process.stdout.readline() == "usable\n"
        assert left(names, pools) == names
        assert process.communicate(timeout=30)[0] == ""
        assert not left(names, pools)


def test_pools_go_on_with_a_server_that_was_restarted(tmp_path: Path) -> None:
    write_all(tmp_path)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, *OPTIONS))
        made = []
        for layout in (Layout("sync", "grpc"), Layout("async", "http")):
            pools = stack.enter_context(Pools(layout, server))
            made.append((pools, pools(regions=3, retries=50)))
        names = [pool.names for _, pool in made]
        os.kill(server.pid, signal.SIGKILL)
        first.close()
        stack.enter_context(run_server(tmp_path, *OPTIONS, ports=server.ports))
        for pools, pool in made:
            for image in (IMAGE, OTHER):
                np.testing.assert_array_equal(infer(pool, image), expected(image))
            assert set(pool.names) <= pools.registered()
        assert [pool.names for _, pool in made] == names
