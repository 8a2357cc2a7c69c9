"""Requests over a client's connection, by either protocol, with threads and asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from endcap.client.concurrency import Tasks, run
from endcap.client.connection import Connection
from endcap.client.options import Address, ConnectionOptions, parse_address
from tests.support.tcp_proxy import TcpProxy
from tests.triton.running_server import RunningServer

T = TypeVar("T")
Inputs = Mapping[str, NDArray[Any]]
Operation = Callable[[Connection], Coroutine[Any, Any, T]]

LOGITS = np.arange(10, dtype=np.float32).reshape(2, 5)
PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http"])
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])
_TYPES = {"float32": "FP32", "int32": "INT32", "object": "BYTES"}


def server_address(server: RunningServer, protocol: str, proxy: TcpProxy | None = None) -> Address:
    place = proxy.address if proxy else getattr(server, protocol)
    return parse_address(f"{protocol}://{place}")


def use(address: Address, kind: str, operation: Operation[T], **options: Any) -> T:
    """Returns what `operation` returns for a connection of either kind."""

    async def work() -> T:
        runtime = Tasks() if kind == "async" else None
        async with Connection(address, ConnectionOptions(**options), runtime) as connection:
            return await operation(connection)

    return asyncio.run(work()) if kind == "async" else run(work())


async def send(
    connection: Connection,
    model: str,
    inputs: Inputs,
    outputs: Sequence[str] = (),
    *,
    timeout_s: float | None = None,
    **more: Any,
) -> Any:
    """Returns tritonclient's result of a request, which is sent again as those of a client."""
    module = connection.module
    tensors = []
    for name, array in inputs.items():
        tensor = module.InferInput(name, list(array.shape), _TYPES[array.dtype.name])
        tensors.append(tensor.set_data_from_numpy(array))
    requested = [module.InferRequestedOutput(name) for name in outputs] or None
    arguments = {"model_name": model, "inputs": tensors, "outputs": requested, **more}
    return await connection.repeat(
        lambda left_s: connection.infer(dict(arguments), left_s),
        timeout_s,
        is_repeatable="sequence_id" not in more,
    )


def infer(
    address: Address,
    model: str,
    inputs: Inputs,
    outputs: Sequence[str] = (),
    *,
    kind: str = "sync",
    timeout_s: float | None = None,
    more: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Returns the result of one request over a connection; more: arguments of `infer`."""
    return use(
        address,
        kind,
        lambda each: send(each, model, inputs, outputs, timeout_s=timeout_s, **(more or {})),
        **options,
    )


def echo(*texts: bytes, behavior: object = None) -> tuple[str, Inputs]:
    """The model `echo` and its inputs."""
    return "echo", {
        "texts": np.array([*texts, b""], np.object_)[:-1],
        "behavior": np.array([json.dumps(behavior or {}).encode()], np.object_),
    }


def received(result: Any) -> dict[str, Any]:
    """Returns the request as the model `echo` received it."""
    return dict(json.loads(result.as_numpy("response")[0]))
