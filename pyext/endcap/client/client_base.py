"""What both clients have in common: their arguments, and what they know of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from endcap.client.address import Address, Protocol
from endcap.client.arguments import ClientArguments, SharedMemory
from endcap.client.errors import ClientError
from endcap.client.images import Color
from endcap.client.options import ConnectionOptions
from endcap.client.session import Session
from endcap.results.task import Task

C = TypeVar("C", bound="ClientBase")


class ClientBase:
    """The arguments are those of `DetectionClient`."""

    def __init__(
        self,
        url: str = "127.0.0.1:8001",
        *,
        protocol: Protocol | None = None,
        model: str = "detect",
        timeout_s: float = 30.0,
        concurrency: int = 4,
        batch: int = 1,
        labels: Sequence[str] | None = None,
        extras: bool = True,
        shared_memory: SharedMemory = "none",
        regions: int | None = None,
        region_bytes: int | None = None,
        classify: int | None = None,
        color: Color = "rgb",
        jpeg_quality: int = 95,
        request_id: str | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        self._start(
            ClientArguments(
                url=url,
                protocol=protocol,
                model=model,
                timeout_s=timeout_s,
                concurrency=concurrency,
                batch=batch,
                labels=labels,
                extras=extras,
                shared_memory=shared_memory,
                regions=regions,
                region_bytes=region_bytes,
                classify=classify,
                color=color,
                jpeg_quality=jpeg_quality,
                request_id=request_id,
                options=options,
            )
        )

    @classmethod
    def from_arguments(cls: type[C], arguments: ClientArguments) -> C:
        """Make a client of arguments that were put together elsewhere; raise the same."""
        client = cls.__new__(cls)
        client._start(arguments)
        return client

    def _start(self, arguments: ClientArguments) -> None:
        self._arguments = arguments
        self._opened: Session | None = None
        self._begin()

    def _begin(self) -> None:
        """Is called when the arguments are known to be usable."""

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self._arguments.address

    @property
    def options(self) -> ConnectionOptions:
        """What its connection is made with."""
        return self._arguments.connection

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._arguments.model

    @property
    def task(self) -> Task:
        """What the model gives, by the outputs that it has."""
        return self._session.model.task

    @property
    def outputs(self) -> frozenset[str]:
        """The names of the model's outputs."""
        return frozenset(self._session.model.outputs)

    @property
    def labels(self) -> list[str] | None:
        """Class names by id, None where neither caller nor server has any."""
        return self._session.labels

    @property
    def _session(self) -> Session:
        if self._opened is None:
            raise ClientError("the client is not connected; use it inside `async with`")
        return self._opened
