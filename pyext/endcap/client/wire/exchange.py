"""A question to a server, and how its answer is read; without I/O, for both kinds of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class GrpcQuestion:
    """A call of the service GRPCInferenceService: its method, as "ModelInfer", and message."""

    method: str
    message: Any


@dataclass(frozen=True)
class HttpQuestion:
    """An HTTP request. path: with the slash before it, percent-encoded."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP response. headers: their names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """question: what to send. read: makes what was asked for of the answer; raises RequestError."""

    question: Any  # GrpcQuestion or HttpQuestion
    read: Callable[[Any], T]
