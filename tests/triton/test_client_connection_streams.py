"""Streams against a real server: models with one, many and no responses, and streams that end."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from running_server import RunningServer, wait_for
from tcp_proxy import proxy_to

from endcap.client import AsyncStream, Stream
from endcap.client.address import parse_address
from endcap.client.calls import Call, InputTensor, OutputTensor, Response
from endcap.client.connection import Connection
from endcap.client.connection_aio import AsyncConnection
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError


@pytest.fixture(scope="session")
def server(client_server: RunningServer) -> RunningServer:
    return client_server


class Blocking:
    """An AsyncStream that is a Stream underneath, so that each test is written once."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def alive(self) -> bool:
        return self._stream.alive

    async def send(self, call: Call) -> None:
        self._stream.send(call)

    async def receive(self, timeout_s: float | None = None) -> Response:
        return self._stream.receive(timeout_s)

    async def close(self) -> None:
        self._stream.close()


AnyStream = AsyncStream | Blocking
Test = Callable[[AnyStream], Coroutine[Any, Any, None]]


def run(authority: str, kind: str, test: Test) -> None:
    address = parse_address(authority)

    async def run_blocking() -> None:
        with Connection(address) as connection, connection.stream() as stream:
            await test(Blocking(stream))

    async def run_async() -> None:
        async with AsyncConnection(address) as connection, connection.stream() as stream:
            await test(stream)

    asyncio.run(run_blocking() if kind == "sync" else run_async())


KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


def classify(best: int, request_id: str = "") -> Call:
    logits = np.roll(np.float32([[9, 0, 0, 0, 0]]), best)
    inputs = [InputTensor.of("logits", logits)]
    return Call("classes", inputs, [OutputTensor("class_ids")], request_id)


def talk(request_id: str, **behavior: object) -> Call:
    content = np.array([json.dumps(behavior).encode()], np.object_)
    return Call(
        "talk", [InputTensor.of("behavior", content)], [OutputTensor("response")], request_id
    )


def content(response: Response) -> list[Any]:
    return [tensor.flat[0] for tensor in response.tensors.values() if tensor is not None]


@KINDS
def test_responses_come_in_the_order_of_requests(server: RunningServer, kind: str) -> None:
    async def test(stream: AnyStream) -> None:
        for number in range(50):
            await stream.send(classify(number % 5, str(number)))
        for number in range(50):
            response = await stream.receive()
            assert (response.request_id, response.final) == (str(number), True)
            assert content(response) == [number % 5]
        assert stream.alive

    run(server.grpc, kind, test)


@KINDS
def test_a_decoupled_model_responds_often_and_says_which_is_last(
    decoupled_server: RunningServer, kind: str
) -> None:
    async def test(stream: AnyStream) -> None:
        await stream.send(talk("final with the last", responses=3, final=True))
        await stream.send(talk("final after it", responses=2))
        await stream.send(talk("none", responses=0))
        responses: dict[str, list[tuple[list[Any], bool]]] = {}
        while Counter(a[1] for each in responses.values() for a in each)[True] < 3:
            response = await stream.receive()
            responses.setdefault(response.request_id, []).append(
                (content(response), response.final)
            )
        assert responses == {
            "final with the last": [([b"0"], False), ([b"1"], False), ([b"2"], True)],
            "final after it": [([b"0"], False), ([b"1"], False), ([], True)],
            "none": [([], True)],
        }

    run(decoupled_server.grpc, kind, test)


async def fails(stream: AnyStream, call: Call, status: str, words: str) -> None:
    await stream.send(call)
    with pytest.raises(RequestError, match=words) as caught:
        await stream.receive()
    assert caught.value.request_id == call.request_id
    assert caught.value.status_name == status
    assert stream.alive


@KINDS
def test_the_error_of_one_request_leaves_the_others(
    server: RunningServer, decoupled_server: RunningServer, kind: str
) -> None:
    async def test(stream: AnyStream) -> None:
        await stream.send(classify(1, "good"))
        assert content(await stream.receive()) == [1]
        await fails(stream, Call("classes", [], [], "bad"), "internal", "got 0 inputs")
        await stream.send(classify(2))
        assert content(await stream.receive()) == [2]

    async def decoupled(stream: AnyStream) -> None:
        broken = talk("broken", responses=0, fail="corrupt_image: no JPEG")
        await fails(stream, broken, "corrupt_image", "^no JPEG")
        await stream.send(talk("good", responses=1, final=True))
        assert content(await stream.receive()) == [b"0"]

    async def unknown(stream: AnyStream) -> None:
        for request_id in ("one", "two"):
            call = Call("absent", [], [], request_id)
            await fails(stream, call, "internal", "unknown model: 'absent'")

    run(server.grpc, kind, test)
    run(decoupled_server.grpc, kind, decoupled)
    run(server.grpc, kind, unknown)


@KINDS
def test_a_stream_is_for_one_model(server: RunningServer, kind: str) -> None:
    async def test(stream: AnyStream) -> None:
        await stream.send(classify(1))
        with pytest.raises(InvalidArgumentError, match="for the model 'classes': open another"):
            await stream.send(talk("other", responses=1))
        await stream.send(classify(2))
        assert [content(await stream.receive()) for _ in range(2)] == [[1], [2]]

    run(server.grpc, kind, test)


@KINDS
def test_waiting_too_long_leaves_the_stream(server: RunningServer, kind: str) -> None:
    async def test(stream: AnyStream) -> None:
        with pytest.raises(RequestError, match=r"no response within 0\.1 s") as caught:
            await stream.receive(0.1)
        assert caught.value.status_name == "timeout"
        await stream.send(classify(3))
        assert content(await stream.receive(5)) == [3]

    run(server.grpc, kind, test)


@KINDS
def test_a_dead_stream_says_so_and_another_is_opened(server: RunningServer, kind: str) -> None:
    with proxy_to(server.grpc) as proxy:

        async def test(stream: AnyStream) -> None:
            await stream.send(classify(1))
            await stream.receive()
            proxy.cut()
            for _ in range(2):
                with pytest.raises(RequestError) as caught:
                    await stream.receive(5)
                assert caught.value.status_name == "unavailable"
            assert not stream.alive
            with pytest.raises(RequestError):
                await stream.send(classify(1))

        async def check(stream: AnyStream) -> None:
            await stream.send(classify(4))
            assert content(await stream.receive()) == [4]

        run(proxy.address, kind, test)
        run(proxy.address, kind, check)
        assert proxy.connections == 2


@KINDS
def test_a_closed_stream_says_so(server: RunningServer, kind: str) -> None:
    async def test(stream: AnyStream) -> None:
        await stream.close()
        await stream.close()
        assert not stream.alive
        for wait_s in (5, 5):
            with pytest.raises(RequestError, match="the stream was closed") as caught:
                await stream.receive(wait_s)
            assert caught.value.status_name == "cancelled"
        with pytest.raises(RequestError, match="the stream was closed; open another one"):
            await stream.send(classify(0))

    run(server.grpc, kind, test)


def test_closing_the_connection_ends_its_streams(server: RunningServer) -> None:
    with Connection(parse_address(server.grpc)) as connection:
        stream = connection.stream()
        stream.send(classify(0))
        stream.receive()
    with pytest.raises(RequestError, match="the connection was closed"):
        stream.receive(5)


def test_streams_share_a_channel_and_leave_no_thread(server: RunningServer) -> None:
    before = threading.active_count()
    with proxy_to(server.grpc) as proxy, Connection(parse_address(proxy.address)) as connection:
        with connection.stream() as one, connection.stream() as other:
            one.send(classify(1))
            other.send(classify(2))
            assert [content(one.receive()), content(other.receive())] == [[1], [2]]
        left_behind = connection.stream()
        left_behind.send(classify(1))
        left_behind.receive()
        del left_behind
        gc.collect()
        assert proxy.connections == 1
    wait_for(lambda: threading.active_count() <= before)


def test_a_cancelled_receive_leaves_the_stream(server: RunningServer) -> None:
    async def test() -> None:
        async with (
            AsyncConnection(parse_address(server.grpc)) as connection,
            connection.stream() as stream,
        ):
            waiting = asyncio.ensure_future(stream.receive())
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await stream.send(classify(2))
            assert content(await stream.receive()) == [2]

    asyncio.run(test())
