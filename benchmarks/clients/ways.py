"""The ways that are compared: what crosses the network, how, and who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Comparison = Literal["file", "tensor"]
COMPARISONS: dict[Comparison, str] = {
    "file": "From a file to detections",
    "tensor": "From a tensor to the head",
}


@dataclass(frozen=True)
class Way:
    """One way of asking.

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


WAYS = (
    Way("file", "JPEG, gRPC", "JPEG"),
    Way("file", "JPEG, HTTP", "JPEG", "http"),
    Way("file", "JPEG, system shm", "JPEG", shared_memory="system"),
    Way("file", "JPEG, gRPC, gzip", "JPEG", compression="gzip"),
    Way("file", "JPEG, HTTP, gzip", "JPEG", "http", compression="gzip"),
    Way("file", "JPEG, gRPC, asyncio", "JPEG", asyncio=True),
    Way("file", "JPEG, HTTP, asyncio", "JPEG", "http", asyncio=True),
    Way("file", "tensor, gRPC", "tensor"),
    Way("file", "tensor, HTTP", "tensor", "http"),
    Way("file", "tensor, system shm", "tensor", shared_memory="system"),
    Way("file", "tensor, CUDA shm", "tensor", shared_memory="cuda"),
    Way("tensor", "gRPC", "tensor"),
    Way("tensor", "HTTP", "tensor", "http"),
    Way("tensor", "system shm", "tensor", shared_memory="system"),
    Way("tensor", "CUDA shm", "tensor", shared_memory="cuda"),
    Way("tensor", "gRPC, gzip", "tensor", compression="gzip"),
    Way("tensor", "HTTP, gzip", "tensor", "http", compression="gzip"),
)


def find(comparison: str, name: str) -> Way:
    """Return the way of that name. Raises KeyError."""
    for way in WAYS:
        if (way.comparison, way.name) == (comparison, name):
            return way
    raise KeyError(name)
