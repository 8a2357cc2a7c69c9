"""Servers that are busy, not there yet, gone, or something else."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from endcap.client.calls import Call, InputTensor, SequenceStep
from endcap.client.errors import RequestError
from endcap.client.options import Keepalive
from tests.support.tcp_proxy import TcpProxy, proxy_to
from tests.triton.connection_calls import (
    CLASSES,
    KINDS,
    LOGITS,
    PROTOCOLS,
    echo,
    open_connection,
    request,
)
from tests.triton.running_server import RunningServer, wait_for


@pytest.fixture(scope="session")
def server(client_server: RunningServer) -> RunningServer:
    return client_server


@KINDS
@PROTOCOLS
def test_what_responds_may_be_no_such_service(
    server: RunningServer, protocol: str, kind: str
) -> None:
    other = server.http if protocol == "grpc" else server.grpc
    with proxy_to(other) as proxy, pytest.raises(RequestError) as caught:
        request(server, protocol, kind, "infer", CLASSES, proxy=proxy, retries=0)
    assert caught.value.status_name == "unavailable"
    if protocol == "http":
        assert "not a Triton server's http service" in str(caught.value)


@contextlib.contextmanager
def full_queue(server: RunningServer, folder: Path) -> Iterator[Path]:
    """While this lasts, `echo` is busy and takes no more, until there is the file that is given."""
    end = folder / "end"
    call = echo(behavior={"until": str(end)}, request_id=f"busy {uuid.uuid4().hex}")
    with open_connection(server, "grpc") as connection, ThreadPoolExecutor(3) as workers:
        try:
            workers.submit(connection.infer, call)
            wait_for(lambda: server.log_lines(f"echo: {call.request_id} begins"))
            for _ in range(2):
                workers.submit(connection.infer, call)
            pending = "nv_inference_pending_request_count"
            wait_for(lambda: server.metric(pending, model="echo") == 2)
            yield end
        finally:
            end.touch()


@KINDS
@PROTOCOLS
def test_a_busy_server_gets_the_request_again(
    server: RunningServer, protocol: str, kind: str, tmp_path: Path
) -> None:
    with full_queue(server, tmp_path) as end:
        with pytest.raises(RequestError, match="Exceeds maximum queue size") as caught:
            request(server, protocol, kind, "infer", echo(b"x"), retries=0)
        assert caught.value.status_name == "unavailable"
        assert caught.value.transient
        threading.Timer(0.1, end.touch).start()
        response = request(server, protocol, kind, "infer", echo(b"x"), retries=100)
        assert response.tensors["response"][1:].tolist() == [b"x"]


@KINDS
def test_what_is_not_to_be_sent_twice_is_not(
    server: RunningServer, kind: str, tmp_path: Path
) -> None:
    """Requests over HTTP can be counted on the wire."""
    wrong = Call("classes", [InputTensor.of("nose", LOGITS)], [])
    with proxy_to(server.http) as proxy, full_queue(server, tmp_path):
        for call, retries, times in (
            (wrong, 100, 1),
            (echo(sequence=SequenceStep(3)), 100, 1),
            (echo(), 0, 1),
            (echo(), 1, 2),
        ):
            before = proxy.sent.count(b"POST")
            with pytest.raises(RequestError):
                request(server, "http", kind, "infer", call, proxy=proxy, retries=retries)
            assert proxy.sent.count(b"POST") - before == times


@KINDS
@PROTOCOLS
def test_a_server_that_comes_up_is_met(server: RunningServer, protocol: str, kind: str) -> None:
    proxy = TcpProxy(getattr(server, protocol))
    opener = threading.Timer(0.4, proxy.open)
    try:
        with pytest.raises(RequestError) as caught:
            request(server, protocol, kind, "infer", CLASSES, proxy=proxy, retries=0)
        assert caught.value.status_name == "unavailable"
        opener.start()
        response = request(server, protocol, kind, "infer", CLASSES, proxy=proxy, retries=100)
        assert response.tensors["class_ids"].shape == (2, 3)
    finally:
        opener.join()
        proxy.close()


@PROTOCOLS
def test_a_broken_connection_is_replaced(server: RunningServer, protocol: str) -> None:
    with (
        proxy_to(getattr(server, protocol)) as proxy,
        open_connection(server, protocol, proxy) as connection,
    ):
        connection.infer(CLASSES)
        connection.infer(CLASSES)
        assert proxy.connections == 1  # it is used again
        proxy.cut()
        assert connection.infer(CLASSES).request_id == "request-7"
        assert proxy.connections == 2


def test_a_dead_peer_is_noticed_by_keepalive(server: RunningServer) -> None:
    keepalive = Keepalive(time_s=0.2, timeout_s=0.2, without_calls=True, max_pings_without_data=0)
    with proxy_to(server.grpc) as proxy:
        options = {"keepalive": keepalive, "retries": 0}
        with open_connection(server, "grpc", proxy, **options) as connection:
            assert connection.is_live()
            proxy.stall()
            begin = time.monotonic()
            with pytest.raises(RequestError) as caught:
                connection.infer(CLASSES)
            assert caught.value.status_name == "unavailable"
            assert time.monotonic() - begin < 15  # and not the deadline of 30 s
