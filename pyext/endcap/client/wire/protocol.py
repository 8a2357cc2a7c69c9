"""Either of Triton's protocols, and what both kinds of connections do alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

from endcap.client.address import Address
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.wire.exchange import Exchange
from endcap.client.wire.grpc_protocol import GrpcProtocol
from endcap.client.wire.http_protocol import HttpProtocol
from endcap.errors import InvalidArgumentError, UnsupportedError

RegionKind = Literal["system", "cuda"]
Protocol = GrpcProtocol | HttpProtocol


def make_protocol(address: Address, options: ConnectionOptions) -> Protocol:
    """Returns the protocol of an address."""
    return GrpcProtocol() if address.protocol == "grpc" else HttpProtocol(options.compression)


def register_region(
    protocol: Protocol,
    kind: RegionKind,
    name: str,
    byte_size: int,
    *,
    key: str | None,
    raw_handle: bytes | None,
    device_id: int,
) -> Exchange[None]:
    """Returns what registers a region; see Connection.register_shared."""
    if kind == "system":
        return protocol.register_system(name, name if key is None else key, byte_size)
    if raw_handle is None:
        raise InvalidArgumentError(f"region {name} is of CUDA, but has no raw_handle; give it")
    return protocol.register_cuda(name, raw_handle, device_id, byte_size)


def streams_need_grpc(address: Address) -> UnsupportedError:
    """Returns the error of a stream over HTTP."""
    return UnsupportedError(
        f"{address} is asked over HTTP, which has no streams; give the server's gRPC address"
    )


@contextlib.contextmanager
def named(request_id: str) -> Iterator[None]:
    """Gives a RequestError that is raised in the block the request's id, where it has none."""
    try:
        yield
    except RequestError as error:
        error.request_id = error.request_id or request_id
        raise
