"""What a served Triton refuses to clients: loading models, traces, logging, their shared memory."""

from __future__ import annotations

import re
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.client import ConnectionOptions, SharedMemoryPool
from endcap.errors import UnsupportedError
from endcap.server import ServerSettings, TritonServer
from endcap.server.release import CLOSED_GRPC_KEY
from tests.triton.model_folders import write_preprocess
from tests.triton.running_server import FREE_PORTS

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """Restricted as by `endcap serve`, which the shared server is not: tests load its models."""
    repository = tmp_path_factory.mktemp("models")
    write_preprocess(repository, "pre")
    with TritonServer(repository, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


def status(
    server: TritonServer, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    """The status code and body of a response."""
    request = urllib.request.Request(f"{server.http_url}{path}", data=body)
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with _OPENER.open(request, timeout=60) as response:
            return int(response.status), bytes(response.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def shown_keys(server: TritonServer) -> list[tuple[str, str]]:
    """The keys and values of restrictions that other users see."""
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
    pattern = r"--(?:http-restricted-api|grpc-restricted-protocol)=[^:]*:([^=\0]*)=([^\0]*)"
    return re.findall(pattern, command)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/repository/models/evil/load", b'{"parameters": {"config": "{}"}}'),
        ("/v2/repository/index", b"{}"),
        ("/v2/repository/models/pre/unload", b"{}"),
        ("/v2/trace/setting", None),
        ("/v2/models/pre/trace/setting", b'{"trace_rate": "1"}'),
        ("/v2/logging", b'{"log_verbose_level": 1}'),
        ("/v2/systemsharedmemory/status", None),
        ("/v2/systemsharedmemory/region/a/register", b'{"key": "/a", "byte_size": 1}'),
        ("/v2/systemsharedmemory/unregister", b"{}"),
        ("/v2/cudasharedmemory/status", None),
    ],
)
def test_closed_over_http(server: TritonServer, path: str, body: bytes | None) -> None:
    # As a browser sends it of a page of another site, without a preflight request.
    page = {"Content_Type": "text/plain", "Origin": "http://evil.example", "Host": "evil.example"}
    code, text = status(server, path, body, **page)
    assert (code, b"restricted" in text) == (403, True), text
    for _, value in shown_keys(server):
        # What can be sent of the value that other users see
        for part in filter(None, value.splitlines()):
            for name in {key for key, _ in shown_keys(server)}:
                assert status(server, path, body, **{name: part})[0] == 403


def test_open_over_http(server: TritonServer) -> None:
    for path in ("/v2", "/v2/models/pre", "/v2/models/pre/config", "/v2/models/stats"):
        assert status(server, path)[0] == 200


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("load_model", ("evil",)),
        ("unload_model", ("pre",)),
        ("get_model_repository_index", ()),
        ("get_trace_settings", ()),
        ("get_log_settings", ()),
        ("get_system_shared_memory_status", ()),
        ("register_system_shared_memory", ("a", "/a", 1)),
    ],
)
def test_closed_over_grpc(server: TritonServer, call: str, arguments: tuple[Any, ...]) -> None:
    header = f"triton-grpc-protocol-{CLOSED_GRPC_KEY}".lower()
    with grpc_client.InferenceServerClient(server.grpc_url.removeprefix("grpc://")) as client:
        for headers in ({}, *({header: value.splitlines()[0]} for _, value in shown_keys(server))):
            with pytest.raises(InferenceServerException, match="restricted"):
                getattr(client, call)(*arguments, headers=headers)
        assert client.is_model_ready("pre")


def test_no_raw_request_opens_grpc(server: TritonServer) -> None:
    """A client of HTTP/2 that checks nothing may send a line break, but no capital letter."""
    name = f"triton-grpc-protocol-{CLOSED_GRPC_KEY}"
    (value,) = {value for key, value in shown_keys(server) if key == CLOSED_GRPC_KEY}
    index = "/inference.GRPCInferenceService/RepositoryIndex"
    assert responds_over_grpc(server.ports.grpc, "/inference.GRPCInferenceService/ServerLive", {})
    for sent in (name, name.lower()):
        assert not responds_over_grpc(server.ports.grpc, index, {sent: value})
    assert not responds_over_grpc(server.ports.grpc, index, {})


def responds_over_grpc(port: int, path: str, headers: dict[str, str]) -> bool:
    """Whether an empty gRPC request gets a message; its HTTP/2 frames are made by hand."""

    def text(value: str) -> bytes:  # of fewer than 127 bytes, not compressed
        return bytes([len(value)]) + value.encode()

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return (
            struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
        )

    pseudo = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    fields = pseudo | {"te": "trailers", "content-type": "application/grpc"} | headers
    block = b"".join(b"\0" + text(name) + text(value) for name, value in fields.items())
    data, head, reset, settings, ping, away = 0, 1, 3, 4, 6, 7
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, 0, 0, b""))
        connection.sendall(frame(head, 4, 1, block) + frame(data, 1, 1, bytes(5)))
        with connection.makefile("rb") as received:
            while start := received.read(9):
                kind, flags, stream = struct.unpack(">BBI", start[3:])
                payload = received.read(int.from_bytes(start[:3], "big"))
                if kind == ping and not flags & 1:
                    connection.sendall(frame(ping, 1, 0, payload))
                if stream == 1 and kind == data and payload:
                    return True
                if kind in (reset, away) or (stream == 1 and kind == head and flags & 1):
                    return False
    return False


def test_shared_memory_is_refused_with_the_option_that_allows_it(server: TritonServer) -> None:
    said = r"restricted.*; start it with `endcap serve --client-shared-memory`"
    options = ConnectionOptions(retries=0)
    for url in (server.http_url, server.grpc_url):
        with pytest.raises(UnsupportedError, match=said):
            SharedMemoryPool(url, region_bytes=4096, options=options)
