"""Options that several commands share; each is declared once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from endcap.client import ClientArguments, ConnectionOptions, Tls
from endcap.errors import InvalidArgumentError

SERVER_PANEL = "Server"
CONNECTION_PANEL = "Connection"
SENDING_PANEL = "Requests"
FRAMES_PANEL = "Videos and tracks"
OUTPUT_PANEL = "Output"
# The port follows from the protocol.
DEFAULT_URL = "127.0.0.1"
_CLIENT = ClientArguments()


class ProtocolName(str, Enum):
    """Values of `--protocol`."""

    grpc = "grpc"
    http = "http"


class SharedMemory(str, Enum):
    """Values of `--shm`."""

    none = "none"
    system = "system"
    cuda = "cuda"


def option(panel: str | None, help: str, *names: str, **settings: Any) -> Any:
    """Return an option of a panel of the help, whose default is in its description."""
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=panel, **settings)


Protocol = Annotated[
    ProtocolName | None,
    option(SERVER_PANEL, "Protocol of requests. Default: that of --url, else grpc."),
]
Model = Annotated[str, typer.Option(help="Name of the ensemble.", rich_help_panel=SERVER_PANEL)]
Timeout = Annotated[
    float, typer.Option(help="Seconds for each request.", rich_help_panel=SERVER_PANEL)
]
Concurrency = Annotated[
    int, typer.Option(min=1, help="Requests in flight at once.", rich_help_panel=SENDING_PANEL)
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")]


@dataclass(frozen=True)
class ServerOptions:
    """The server, and how a client sends requests to it."""

    url: Annotated[
        str,
        typer.Option(
            help="HOST, HOST:PORT, or either after grpc://, grpcs://, http:// or https://.",
            rich_help_panel=SERVER_PANEL,
        ),
    ] = DEFAULT_URL
    protocol: Protocol = None
    timeout: Timeout = _CLIENT.timeout_s
    batch: Annotated[
        int, typer.Option(min=1, help="Images in one request.", rich_help_panel=SENDING_PANEL)
    ] = _CLIENT.batch
    shm: Annotated[
        SharedMemory,
        typer.Option(
            help="Send tensors through memory shared with a server on this machine: system or GPU "
            "memory. The server has to allow it: `endcap serve --client-shared-memory`.",
            rich_help_panel=SENDING_PANEL,
        ),
    ] = SharedMemory.none
    region_bytes: Annotated[
        int | None,
        option(
            SENDING_PANEL,
            "Bytes of shared memory of a request. Default: 8 MiB for each encoded image, and the "
            "size of the tensors.",
            min=1,
        ),
    ] = None
    header: Annotated[
        list[str] | None,
        option(CONNECTION_PANEL, "Header of each request; may be repeated.", metavar="NAME:VALUE"),
    ] = None
    tls_ca: Annotated[
        Path | None,
        option(
            CONNECTION_PANEL,
            "PEM file of certificate authorities; turns TLS on.",
            metavar="FILE",
        ),
    ] = None

    def client_arguments(
        self, *, retries: int = ConnectionOptions.retries, **others: Any
    ) -> ClientArguments:
        """Return the arguments of a client, with those that the command has beside these."""
        return ClientArguments(
            self.url,
            protocol=self.protocol.value if self.protocol else None,
            batch=self.batch,
            shared_memory=self.shm.value,
            region_bytes=self.region_bytes,
            options=ConnectionOptions(
                timeout_s=self.timeout,
                retries=retries,
                headers=_read_headers(self.header or ()),
                tls=Tls(ca=self.tls_ca) if self.tls_ca else None,
            ),
            **others,
        )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of dataclasses are an option for each of their fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)
    }
    parameters = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        types = get_type_hints(group, include_extras=True)
        parameters += [
            parameter.replace(name=field.name, annotation=types[field.name], default=field.default)
            for field in dataclasses.fields(group)
        ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            given = {field.name: values.pop(field.name) for field in dataclasses.fields(kind)}
            values[name] = kind(**given)
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def refused_option(name: str, ours: str) -> Any:
    """Return an option of other programs, hidden and refused with the name that it has here."""

    def refuse(value: str | None) -> None:
        if value is not None:
            raise typer.BadParameter(f"there is no such option here; give {ours}")

    return typer.Option(name, hidden=True, callback=refuse)


def read_settings(given: Sequence[str], others: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the parameters of `--set NAME=VALUE`, and `others` that options of their own gave.

    Raises:
        InvalidArgumentError: A pair is none, or a name is given twice.
    """
    settings = dict(others or {})
    for pair in given:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidArgumentError(f"--set is '{pair}'; give NAME=VALUE, such as upscale=false")
        if name in settings:
            raise InvalidArgumentError(f"{name} is given twice; leave one out")
        settings[name] = value.strip()
    return settings


def _read_headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or not name:
            raise InvalidArgumentError(
                f"--header {text!r} is not NAME:VALUE, such as X-Request-Id:7"
            )
        if name.lower() in map(str.lower, headers):
            raise InvalidArgumentError(
                f"--header {name} is given twice; give one, its values separated by commas if it "
                "is a list"
            )
        headers[name] = value.strip()
    return headers
