"""Requests and responses of both protocols as plain data, and what their transports share."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Generic, TypeVar

from endcap.client.address import Protocol
from endcap.client.errors import ClientError

T = TypeVar("T")


@dataclass(frozen=True)
class GrpcRequest:
    """A call of the service GRPCInferenceService: its method, as "ModelInfer", and message."""

    method: str
    message: Any


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request. path: with the slash before it, percent-encoded."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response. headers: their names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """request: what to send. read: returns what the response says; raises RequestError."""

    request: Any  # GrpcRequest or HttpRequest
    read: Callable[[Any], T]


def import_client(protocol: Protocol) -> ModuleType:
    """Return `tritonclient.grpc` or `tritonclient.http`; ClientError where it is missing."""
    try:
        return importlib.import_module(f"tritonclient.{protocol}")
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ClientError(
            f"the {protocol} client of Triton is not installed ({error}); "
            "run `pip install 'endcap[client]'`"
        ) from error


def check_process(process: int) -> None:
    """Raise ClientError where the connection was opened by another process than this one."""
    if process != os.getpid():
        raise ClientError(
            f"this connection was made by process {process}, before a fork, which it does not "
            "survive; make a connection in each process"
        )
