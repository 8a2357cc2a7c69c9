"""However a program ends: its regions go, and nobody else's."""

from __future__ import annotations

import signal
import textwrap
import time
from collections.abc import Iterator

import pytest
from pool_programs import ASYNC, SYNC, Program, run_program
from running_server import RunningServer
from shared_memory_models import REGION_BYTES, SLOW_S, files

from endcap.client import SharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions


@pytest.fixture(scope="module")
def connection(pool_server: RunningServer) -> Iterator[Connection]:
    with Connection(parse_address(pool_server.http, "http"), ConnectionOptions()) as made:
        yield made


def left(program: Program, connection: Connection) -> set[str]:
    """What there is of the program's regions, in /dev/shm or at the server."""
    return program.names & (files() | connection.registered("system").keys())


ENDS = {
    "plain end": ("http", "", 0),
    "sys.exit": ("grpc", "sys.exit(3)", 3),
    "exception": ("http", "with pool, pool.acquire() as lease:\n    raise KeyError('mine')", 1),
    "daemon thread": (
        "grpc",
        "threading.Thread(target=infer, args=(pool, IMAGE, 'slow'), daemon=True).start()\n"
        "time.sleep(0.2)",
        0,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_program_leaves_nothing(
    end: str, pool_server: RunningServer, connection: Connection
) -> None:
    protocol, text, status = ENDS[end]
    with run_program(SYNC + text, pool_server, protocol) as program:
        assert program.names
        assert program.end()[0] == status
        assert not left(program, connection)


ASYNC_ENDS = {
    "plain end": ("grpc", "pass", 0),
    "exception": ("http", "async with pool, pool.acquire():\n    raise KeyError('mine')", 1),
}


@pytest.mark.parametrize("end", ASYNC_ENDS)
def test_the_end_of_an_event_loop_leaves_nothing(
    end: str, pool_server: RunningServer, connection: Connection
) -> None:
    protocol, text, status = ASYNC_ENDS[end]
    use = "async def use(pool):\n" + textwrap.indent(text, "    ")
    with run_program(f"{ASYNC}{use}\nasyncio.run(main())", pool_server, protocol) as program:
        assert program.names
        assert program.end()[0] == status
        assert not left(program, connection)


IN_A_REQUEST = {
    "sync": SYNC + "tell('sending')\ninfer(pool, IMAGE, 'slow')\ntell('received')",
    "async": ASYNC
    + "async def use(pool):\n    async with pool:\n        tell('sending')\n"
    + "        await infer(pool, IMAGE, 'slow')\n        tell('received')\n"
    + "asyncio.run(main())",
}


@pytest.mark.parametrize(
    ("kind", "protocol"), [("sync", "grpc"), ("async", "grpc"), ("async", "http")]
)
def test_sigterm_in_a_request_leaves_nothing(
    kind: str, protocol: str, pool_server: RunningServer, connection: Connection
) -> None:
    with run_program(IN_A_REQUEST[kind], pool_server, protocol) as program:
        assert program.line() == "sending"
        time.sleep(0.2)
        program.signal(signal.SIGTERM)
        program.signal(signal.SIGTERM)  # as from a supervisor and its process group
        status, rest = program.end()
        assert (status, "received" in rest) == (143, False), rest
        assert not left(program, connection)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_sigterm_of_a_busy_event_loop_leaves_nothing_and_prints_nothing(
    protocol: str, pool_server: RunningServer, connection: Connection
) -> None:
    use = """
async def use(pool):
    async def work():
        while True:
            await infer(pool)
    async with pool:
        tell("working")
        await asyncio.gather(*(work() for _ in range(6)))

asyncio.run(main())
"""
    with run_program(ASYNC + use, pool_server, protocol) as program:
        assert program.line() == "working"
        time.sleep(0.1)
        program.signal(signal.SIGTERM)
        assert program.end() == (143, "")
        assert not left(program, connection)


def test_a_handler_of_the_programs_own_stays(
    pool_server: RunningServer, connection: Connection
) -> None:
    own = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n"
    text = f"{own}{SYNC}time.sleep(5)\nsys.exit(7)"
    with run_program(text, pool_server, "http") as program:
        program.signal(signal.SIGTERM)
        assert program.line() == "mine"


def test_what_a_killed_program_leaves_goes_with_the_next_pool(
    pool_server: RunningServer, connection: Connection
) -> None:
    text = SYNC + "tell('sending')\ninfer(pool, IMAGE, 'slow')"
    with run_program(text, pool_server, "grpc") as program:
        assert program.line() == "sending"
        time.sleep(0.2)
        program.signal(signal.SIGKILL)
        program.end()
        assert left(program, connection) == program.names

        with SharedMemoryPool(connection, region_bytes=REGION_BYTES):
            assert not program.names & files()
    # The server had not responded yet: what it still used is swept by a later pool.
    time.sleep(SLOW_S)
    with SharedMemoryPool(connection, region_bytes=REGION_BYTES):
        assert not left(program, connection)
    assert connection.is_ready("pre")


def test_two_programs_at_once_do_not_collide(
    pool_server: RunningServer, connection: Connection
) -> None:
    text = SYNC + (
        "for _ in range(100):\n"
        "    for image in (IMAGE, OTHER):\n"
        "        assert np.array_equal(infer(pool, image), expected(image))\n"
        "tell('equal')"
    )
    with (
        run_program(text, pool_server, "grpc") as one,
        run_program(text, pool_server, "grpc") as other,
    ):
        assert not one.names & other.names
        assert one.end() == other.end() == (0, "equal\n")
        assert not left(one, connection) | left(other, connection)


CHILDREN = {
    "sys.exit": "if os.fork() == 0:\n    sys.exit(0)",
    "os._exit": "if os.fork() == 0:\n    os._exit(0)",
    "exception in the block": (
        "try:\n"
        "    with pool.acquire() as lease:\n"
        "        parent = os.getpid()\n"
        "        os.fork()\n"
        "        if os.getpid() != parent:\n"
        "            with pool:\n"
        "                raise KeyError('of the child')\n"
        "except KeyError:\n"
        "    sys.exit(0)"
    ),
    "SIGTERM": (
        "import signal\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(20)\n"
        "    os._exit(1)\n"
        "time.sleep(0.2)  # a signal before Python has done with the fork is lost\n"
        "os.kill(child, signal.SIGTERM)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM\n"
        "os.fork() or os._exit(0)"
    ),
    "multiprocessing": (
        "import multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=pool.close)\n"
        "child.start()\n"
        "child.join()\n"
        "assert child.exitcode == 0\n"
        "os.fork() or os._exit(0)"
    ),
    "use": (
        "from endcap.errors import UnsupportedError\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        infer(pool)\n"
        "    except UnsupportedError as error:\n"
        "        assert 'parent' in str(error)\n"
        "        os._exit(0)\n"
        "    os._exit(1)"
    ),
}


def test_no_forked_child_breaks_its_parents_pool(
    pool_server: RunningServer, connection: Connection
) -> None:
    text = SYNC
    for name, child in CHILDREN.items():
        text += (
            f"{child}\n"
            "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
            "assert np.array_equal(infer(pool, OTHER), expected(OTHER))\n"
            f"tell({name!r})\n"
        )
    with run_program(text + "sys.stdin.read()", pool_server, "grpc") as program:
        for name in CHILDREN:
            assert program.line() == name
            assert left(program, connection) == program.names
        program.signal(signal.SIGTERM)
        program.end()
        assert not left(program, connection)
