"""Connections of a client to a real server: requests, deadlines, retries, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from endcap.client import (
    ClientError,
    ConnectionOptions,
    ImageResult,
    Keepalive,
    RequestError,
    Results,
    Tls,
)
from endcap.client.concurrency import run
from tests.support.tcp_proxy import TcpProxy, proxy_to
from tests.triton.calls import strings
from tests.triton.client_layouts import GRPC, LAYOUTS, OVER_HTTP, Layout, each, run_in_loop
from tests.triton.client_models import make_file, sizes, write_detect
from tests.triton.running_server import RunningServer, run_server, wait_for

PLAIN: Any = ("detect", {"encoded": strings([b"\xff" * 5])}, ["detection_indices"])
RESPONSE = [[5, 2, -1]]


def echo(*texts: bytes, until: Path | str = "") -> Any:
    """The model `echo` and its inputs."""
    end = np.array([str(until).encode()], np.object_)
    return "echo", {"texts": np.array([*texts, b""], np.object_)[:-1], "until": end}


def received(result: Any) -> dict[str, Any]:
    """The parameters and the timeout of the request, as the model `echo` received it."""
    return dict(json.loads(result.as_numpy("response")[0]))


@pytest.fixture
def end(tmp_path: Path) -> Iterator[Path]:
    """A file that `echo` can wait for; there at the end, so that it is idle for the next test."""
    yield tmp_path / "end"
    (tmp_path / "end").touch()


@each(LAYOUTS)
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tensors_and_headers_go_and_come(
    client_server: RunningServer, layout: Layout, compression: str | None
) -> None:
    texts = [b"", b"one", bytes(range(256)) * 40, bytes(200_000)]
    headers = {"X-Tenant": "orchard; row 3", "Authorization": "Bearer t"}
    with (
        proxy_to(layout.authority(client_server)) as proxy,
        layout.connect(proxy, headers=headers, compression=compression) as connection,
    ):
        result = connection.send(*echo(*texts), request_id="a")
        assert len(proxy.sent) > 200_000 if compression is None else len(proxy.sent) < 12_000
        # Over gRPC the server decides of its own part.
        plain = compression is None or layout.protocol == "grpc"
        assert len(proxy.received) > 200_000 if plain else len(proxy.received) < 12_000
    assert result.as_numpy("response")[1:].tolist() == texts
    name = "x-tenant" if layout.protocol == "grpc" else "X-Tenant"
    assert received(result)["parameters"][name] == "orchard; row 3"


# --- deadlines ------------------------------------------------------------------------------------


@each(LAYOUTS)
def test_a_deadline_holds(client_server: RunningServer, layout: Layout, end: Path) -> None:
    with layout.connect(client_server) as connection:
        with pytest.raises(RequestError, match=r"no response within 1 s") as caught:
            connection.send(*echo(until=end), timeout_s=1, request_id=f"late {layout}")
        assert caught.value.status_name == "timeout"
        if layout.protocol == "grpc":
            wait_for(lambda: client_server.log_lines(f"echo: late {layout} is cancelled"))


@each(LAYOUTS)
def test_a_request_has_what_is_left_of_its_deadline(
    client_server: RunningServer, layout: Layout
) -> None:
    """Unless it is one of a sequence, whose frames wait for one another."""
    for send_timeout, more, limits_s in (
        (True, {"timeout_s": 40}, (36, 40)),
        (True, {"sequence_id": 5, "sequence_start": True, "sequence_end": True}, (0, 0)),
        (False, {}, (0, 0)),
    ):
        result = layout.send(client_server, *echo(), send_timeout=send_timeout, more=more)
        assert limits_s[0] <= received(result)["timeout"] / 1e6 <= limits_s[1]


def test_a_dead_peer_is_noticed_by_keepalive(client_server: RunningServer) -> None:
    keepalive = Keepalive(time_s=0.2, timeout_s=0.2, without_calls=True, max_pings_without_data=0)
    with (
        proxy_to(client_server.grpc) as proxy,
        GRPC.connect(proxy, keepalive=keepalive, retries=0) as connection,
    ):
        assert connection.request("is_server_live")
        proxy.stall()
        begin = time.monotonic()
        with pytest.raises(RequestError) as caught:
            connection.send(*PLAIN)
        assert caught.value.status_name == "unavailable"
        assert time.monotonic() - begin < 15  # and not the deadline of 30 s


# --- retries --------------------------------------------------------------------------------------


@each(LAYOUTS)
def test_a_busy_server_gets_the_request_again(
    client_server: RunningServer, layout: Layout, end: Path
) -> None:
    """It works on one, has one or two at hand, and two in its queue."""
    call = echo(b"x", until=end)
    with layout.connect(client_server, retries=0) as impatient, ThreadPoolExecutor(9) as threads:
        sending = [threads.submit(impatient.send, *call) for _ in range(8)]
        wait_for(lambda: sum(each.done() for each in sending) >= 3)
        sent_again = threads.submit(layout.send, client_server, *call, retries=100)
        time.sleep(0.3)  # it is refused, too
        end.touch()
        errors: list[Any] = [error for each in sending if (error := each.exception())]
        assert sent_again.result().as_numpy("response")[1:].tolist() == [b"x"]
    assert len(errors) >= 3
    for error in errors:
        assert "Exceeds maximum queue size" in str(error)
        assert error.status_name == "unavailable"
        assert error.transient


@each(LAYOUTS)
def test_a_server_that_comes_up_is_met(client_server: RunningServer, layout: Layout) -> None:
    proxy = TcpProxy(layout.authority(client_server))
    opener = threading.Timer(0.4, proxy.open)
    with contextlib.closing(proxy):
        with pytest.raises(RequestError) as caught:
            layout.send(proxy, *PLAIN, retries=0)
        assert caught.value.status_name == "unavailable"
        assert caught.value.transient
        assert "Errno" not in str(caught.value)
        opener.start()
        assert (
            layout.send(proxy, *PLAIN, retries=100).as_numpy("detection_indices").tolist()
            == RESPONSE
        )
        opener.join()


@each(LAYOUTS)
def test_a_broken_connection_is_replaced(client_server: RunningServer, layout: Layout) -> None:
    with (
        proxy_to(layout.authority(client_server)) as proxy,
        layout.connect(proxy) as connection,
    ):
        for _ in range(2):
            connection.send(*PLAIN)
        assert proxy.connections == 1  # it is used again
        proxy.cut()
        assert connection.send(*PLAIN).as_numpy("detection_indices").tolist() == RESPONSE
        assert proxy.connections == 2


@pytest.mark.slow
def test_a_folder_of_images_outlasts_a_restart(tmp_path: Path) -> None:
    """It needs a server that it can stop and start again."""
    option = "--disable-auto-complete-config"
    write_detect(tmp_path)
    is_finished = False

    def images() -> Iterator[bytes]:
        while not is_finished:
            yield b"\xff" * 20
            time.sleep(0.05)

    def detect(layout: Layout, options: dict[str, Any], reported: list[ImageResult]) -> Results:
        with layout.client(server, **options) as client:
            return client.detect(images(), on_result=reported.append)

    def wait_for_more(count: int) -> None:
        """Waits until each client has `count` more responses."""
        goals = [len(each) + count for each in reported]
        wait_for(lambda: all(len(n) > goal for n, goal in zip(reported, goals, strict=True)))

    shared = {"shared_memory": "system", "region_bytes": 1 << 16}
    runs = [(layout, options) for layout in LAYOUTS for options in ({}, shared)]
    reported: list[list[ImageResult]] = [[] for _ in runs]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(runs)) as threads:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, option))
        futures = [threads.submit(detect, *run, r) for run, r in zip(runs, reported, strict=True)]
        try:
            wait_for_more(10)
            first.close()
            stack.enter_context(run_server(tmp_path, option, ports=server.ports))
            wait_for_more(20)
        finally:
            is_finished = True
        results = [future.result() for future in futures]
    for found in results:
        assert {(result.status, result.error) for result in found} == {("ok", None)}
        assert len(found) > 30


# --- ends -----------------------------------------------------------------------------------------


@each(LAYOUTS)
def test_closing_ends_what_is_in_flight(
    client_server: RunningServer, layout: Layout, end: Path
) -> None:
    request_id = f"closed {layout}"
    with layout.connect(client_server) as connection, ThreadPoolExecutor(1) as threads:
        sending = threads.submit(connection.send, *echo(until=end), request_id=request_id)
        wait_for(lambda: client_server.log_lines(f"echo: {request_id} begins"))
        connection.close()
        with pytest.raises(RequestError, match="the connection was closed") as caught:
            sending.result()
        assert caught.value.status_name == "cancelled"
        with pytest.raises(RequestError, match="the connection was closed; open another one"):
            connection.request("is_server_live")


@pytest.mark.parametrize("closes", [False, True])
@each([layout for layout in LAYOUTS if layout.is_async])
def test_a_cancelled_task_cancels_its_request_alone(
    client_server: RunningServer, layout: Layout, closes: bool, end: Path
) -> None:
    request_id = f"gone {layout} {closes}"

    async def work(connection: Any) -> None:
        task = asyncio.create_task(connection.send(*echo(until=end), request_id=request_id))
        other = asyncio.create_task(connection.send(*PLAIN))
        while not client_server.log_lines(f"echo: {request_id} begins"):
            await asyncio.sleep(0.01)
        if closes:
            await other
        task.cancel()
        if closes:
            await connection.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await other).as_numpy("detection_indices").tolist() == RESPONSE
        assert closes or await connection.request("is_server_live")

    with layout.connect(client_server) as connection:
        run_in_loop(work(connection.inner))
    if layout.protocol == "grpc":  # over HTTP this server does not look whether its client has gone
        wait_for(lambda: client_server.log_lines(f"echo: {request_id} is cancelled"))


@each(LAYOUTS)
def test_nothing_is_left_of_connections_and_their_threads(
    client_server: RunningServer, layout: Layout
) -> None:
    """Asyncio's connections are of as many event loops."""

    async def request(connection: Any) -> None:
        async with connection:
            await connection.request("is_server_live")

    def connect() -> None:
        work = request(layout.connect(client_server).inner)
        asyncio.run(work) if layout.is_async else run(work)

    def count(times: int) -> int:
        for _ in range(times):
            thread = threading.Thread(target=connect)
            thread.start()
            thread.join()
        return len(os.listdir("/proc/self/fd"))

    before, threads = count(5), threading.active_count()
    assert wait_for(lambda: count(50) <= before + 2)
    assert threading.active_count() <= threads + 2


# --- TLS: the server's own over gRPC, and that of a proxy before it over HTTP ---------------------

FILES = Path(__file__).resolve().parents[1] / "data" / "tls"  # see make.sh there
CA, STRANGER = FILES / "ca.pem", FILES / "stranger.pem"
CLIENT = {"certificate": FILES / "client.pem", "key": FILES / "client.key"}


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Addresses that take clients with a certificate of the authority's, and no others."""
    repository = tmp_path_factory.mktemp("tls")
    write_detect(repository)
    options = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={FILES / 'server.pem'}",
        f"--grpc-server-key={FILES / 'server.key'}",
        f"--grpc-root-cert={CA}",
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem", FILES / "server.key")
    context.load_verify_locations(CA)
    context.verify_mode = ssl.CERT_REQUIRED
    with run_server(repository, *options) as running, proxy_to(running.http, tls=context) as proxy:
        yield SimpleNamespace(grpc=running.grpc, http=proxy.address)


def detect(layout: Layout, server: Any, scheme: str, tls: Tls | None) -> list[int]:
    options = ConnectionOptions(tls=tls, retries=0)
    with layout.client(server, scheme=scheme, options=options) as client:
        return sizes(client.detect([make_file(3)]))


@each(LAYOUTS)
def test_both_sides_show_who_they_are(tls_server: Any, layout: Layout) -> None:
    for scheme in (f"{layout.protocol}s", layout.protocol):
        assert detect(layout, tls_server, scheme, Tls(ca=CA, **CLIENT)) == [3]


@each(LAYOUTS)
@pytest.mark.parametrize(
    "tls",
    [Tls(ca=STRANGER, **CLIENT), Tls(ca=CA), Tls(**CLIENT), None],
    ids=["another authority", "no certificate", "the usual authorities", "nothing given"],
)
def test_strangers_are_not_spoken_with(tls_server: Any, layout: Layout, tls: Tls | None) -> None:
    with pytest.raises(ClientError, match="no Triton server responds"):
        detect(layout, tls_server, f"{layout.protocol}s", tls)


@each(OVER_HTTP)
def test_https_accepts_any_certificate_without_verification(
    tls_server: Any, layout: Layout
) -> None:
    assert detect(layout, tls_server, "https", Tls(verify=False, **CLIENT)) == [3]
