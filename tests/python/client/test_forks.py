"""A forked child and the connections of its parent."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from tests.support.raw_responses import raw_server, whole

PROGRAM = """
import asyncio, os, sys
from endcap.client.concurrency import Tasks, run
from endcap.client.connection import Connection
from endcap.client.options import ConnectionOptions, parse_address

def send_request(connection):
    try:
        said = connection.request("get_model_metadata", model_name="m")
        said = asyncio.run(said) if sys.argv[1] == "async" else run(said)
        return [each["name"] for each in said["outputs"]]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

runtime = Tasks() if sys.argv[1] == "async" else None
connection = Connection(parse_address(sys.argv[2]), ConnectionOptions(retries=0), runtime)
send_request(connection)
child = os.fork()
if child:
    os.waitpid(child, 0)
print("parent" if child else "child", send_request(connection), flush=True)
os._exit(0)
"""


def run(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_child_does_not_speak_over_its_parents_connection() -> None:
    """Each would take the responses of the other."""

    def respond(wire: socket.socket, number: int) -> None:
        spec = {"name": f"response {number}", "datatype": "FP32", "shape": [1]}
        wire.sendall(whole(json.dumps({"inputs": [], "outputs": [spec]}).encode()))

    with raw_server(respond) as server:
        child, parent = run("sync", f"http://{server.address}")
        assert child.startswith("child ClientError: this connection was made by process")
        assert parent == "parent ['response 2']"
        assert (server.connections, server.requests) == (1, 2)


def test_connections_raise_an_error_in_a_forked_child() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    for kind, protocol in (("sync", "grpc"), ("async", "grpc"), ("async", "http")):
        child, parent = run(kind, f"{protocol}://{nobody}")
        assert child.startswith("child ClientError: this connection was made by process")
        assert child.endswith("before a fork, which it does not survive; make one in each process")
        assert parent.startswith("parent ")
        assert "before a fork" not in parent
