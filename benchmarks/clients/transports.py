"""The transports that are compared: what crosses the network, how, and from where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Comparison = Literal["file", "tensor"]
COMPARISONS: dict[Comparison, str] = {
    "file": "From a file to detections",
    "tensor": "From a tensor to the head",
}


@dataclass(frozen=True)
class Transport:
    """One transport of a request.

    Attributes:
        comparison: "file" goes from an encoded image, which the client decodes where it sends a
            tensor, to detections; "tensor" from a tensor to the head.
    """

    comparison: Comparison
    name: str
    sends: Literal["JPEG", "tensor"]
    protocol: Literal["grpc", "http"] = "grpc"
    shared_memory: Literal["none", "system", "cuda"] = "none"
    compression: Literal["gzip"] | None = None
    asyncio: bool = False


TRANSPORTS = (
    Transport("file", "JPEG, gRPC", "JPEG"),
    Transport("file", "JPEG, HTTP", "JPEG", "http"),
    Transport("file", "JPEG, system shm", "JPEG", shared_memory="system"),
    Transport("file", "JPEG, gRPC, gzip", "JPEG", compression="gzip"),
    Transport("file", "JPEG, HTTP, gzip", "JPEG", "http", compression="gzip"),
    Transport("file", "JPEG, gRPC, asyncio", "JPEG", asyncio=True),
    Transport("file", "JPEG, HTTP, asyncio", "JPEG", "http", asyncio=True),
    Transport("file", "tensor, gRPC", "tensor"),
    Transport("file", "tensor, HTTP", "tensor", "http"),
    Transport("file", "tensor, system shm", "tensor", shared_memory="system"),
    Transport("file", "tensor, CUDA shm", "tensor", shared_memory="cuda"),
    Transport("tensor", "gRPC", "tensor"),
    Transport("tensor", "HTTP", "tensor", "http"),
    Transport("tensor", "system shm", "tensor", shared_memory="system"),
    Transport("tensor", "CUDA shm", "tensor", shared_memory="cuda"),
    Transport("tensor", "gRPC, gzip", "tensor", compression="gzip"),
    Transport("tensor", "HTTP, gzip", "tensor", "http", compression="gzip"),
)


def find(comparison: str, name: str) -> Transport:
    """Return the transport of that name. Raises KeyError."""
    for transport in TRANSPORTS:
        if (transport.comparison, transport.name) == (comparison, name):
            return transport
    raise KeyError(name)
