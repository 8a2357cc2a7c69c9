"""Requests over either kind of connection, by either protocol."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from endcap.client.calls import Call, InputTensor, OutputTensor, Response
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.options import ConnectionOptions, parse_address
from tests.support.tcp_proxy import TcpProxy
from tests.triton.running_server import RunningServer

LOGITS = np.arange(10, dtype=np.float32).reshape(2, 5)
CLASSES = Call(
    "classes", [InputTensor.of("logits", LOGITS)], [OutputTensor("class_ids")], "request-7"
)
PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http"])
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


def open_connection(
    server: RunningServer, protocol: str, proxy: TcpProxy | None = None, **options: Any
) -> Connection:
    place = proxy.address if proxy else getattr(server, protocol)
    return Connection(parse_address(f"{protocol}://{place}"), ConnectionOptions(**options))


def request(
    server: RunningServer,
    protocol: str,
    kind: str,
    method: str,
    *arguments: Any,
    proxy: TcpProxy | None = None,
    timeout_s: float | None = None,
    **options: Any,
) -> Any:
    """Returns the result of a method of either kind of connection."""
    given = {} if timeout_s is None else {"timeout_s": timeout_s}
    with open_connection(server, protocol, proxy, **options) as connection:
        if kind == "sync":
            return getattr(connection, method)(*arguments, **given)

        async def run() -> Any:
            async with AsyncConnection(connection.address, connection.options) as twin:
                return await getattr(twin, method)(*arguments, **given)

        return asyncio.run(run())


def echo(*texts: bytes, behavior: object = None, **more: Any) -> Call:
    inputs = [
        InputTensor.of("texts", np.array([*texts, b""], np.object_)[:-1]),
        InputTensor.of("behavior", np.array([json.dumps(behavior or {}).encode()], np.object_)),
    ]
    return Call("echo", inputs, [OutputTensor("response")], **more)


def received(response: Response) -> dict[str, Any]:
    """Returns the request as the model received it."""
    tensor = response.tensors["response"]
    assert tensor is not None
    return dict(json.loads(tensor[0]))
