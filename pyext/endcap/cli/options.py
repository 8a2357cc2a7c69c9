"""Options that several commands share; each is declared once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from endcap.client import ConnectionOptions, Tls
from endcap.errors import InvalidArgumentError

SERVER_PANEL = "Server"
CONNECTION_PANEL = "Connection"
SENDING_PANEL = "Requests"
FRAMES_PANEL = "Videos and tracks"
OUTPUT_PANEL = "Output"
# The port follows from the protocol.
DEFAULT_URL = "127.0.0.1"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ProtocolName(str, Enum):
    """Values of `--protocol`."""

    grpc = "grpc"
    http = "http"


class SharedMemory(str, Enum):
    """Values of `--shm`."""

    none = "none"
    system = "system"
    cuda = "cuda"


class CompressionName(str, Enum):
    """Values of `--compression`."""

    gzip = "gzip"
    deflate = "deflate"


def byte_count(text: str) -> int:
    """Return the bytes of 16777216, 16M or 16MiB. Raises BadParameter for anything else."""
    match = re.fullmatch(r"([1-9]\d{0,15}) ?(?:([KMG])(?:iB)?)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size; write 16777216, 16M or 16MiB")
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


Url = Annotated[
    str,
    typer.Option(
        help="HOST, HOST:PORT, or either after grpc://, grpcs://, http:// or https://.",
        rich_help_panel=SERVER_PANEL,
    ),
]
Protocol = Annotated[
    ProtocolName | None,
    typer.Option(
        help="Protocol of requests. Default: that of --url, else grpc.",
        show_default=False,
        rich_help_panel=SERVER_PANEL,
    ),
]
Model = Annotated[str, typer.Option(help="Name of the ensemble.", rich_help_panel=SERVER_PANEL)]
Timeout = Annotated[
    float, typer.Option(help="Seconds for each request.", rich_help_panel=SERVER_PANEL)
]
Concurrency = Annotated[
    int, typer.Option(min=1, help="Requests in flight at once.", rich_help_panel=SENDING_PANEL)
]
Batch = Annotated[
    int, typer.Option(min=1, help="Images in one request.", rich_help_panel=SENDING_PANEL)
]
Shm = Annotated[
    SharedMemory,
    typer.Option(
        help="Send tensors through memory shared with a server on this machine: system or GPU "
        "memory. The server has to allow it: `endcap serve --client-shared-memory`.",
        rich_help_panel=SENDING_PANEL,
    ),
]
RegionBytes = Annotated[
    int | None,
    typer.Option(
        parser=byte_count,
        help="Shared memory of a request, such as 16777216, 16M or 16MiB. Default: 8 MiB for each "
        "encoded image, and the size of the tensors.",
        metavar="SIZE",
        show_default=False,
        rich_help_panel=SENDING_PANEL,
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        help="Header of each request; may be repeated.",
        metavar="NAME:VALUE",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of certificate authorities; turns TLS on.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Compression = Annotated[
    CompressionName | None,
    typer.Option(
        help="Compression of requests. JPEG files do not get smaller by it.",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Retries = Annotated[
    int,
    typer.Option(
        min=0,
        help="How often to repeat a request to a server that is not available.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File for the report. Default: standard output.",
        show_default=False,
        rich_help_panel=OUTPUT_PANEL,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")]


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


def connection_options(
    *,
    timeout: float,
    retries: int,
    headers: Sequence[str] = (),
    tls_ca: Path | None = None,
    compression: CompressionName | None = None,
) -> ConnectionOptions:
    """Return the options of a connection. Raises InvalidArgumentError or BadParameter."""
    return ConnectionOptions(
        timeout_s=timeout,
        retries=retries,
        headers=_headers(headers),
        tls=Tls(ca=tls_ca) if tls_ca else None,
        compression=compression.value if compression else None,
    )


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in map(_header, texts):
        if name.lower() in {each.lower() for each in headers}:
            raise typer.BadParameter(
                f"--header {name} is given twice; give one, its values separated by commas if it "
                "is a list"
            )
        headers[name] = value
    return headers


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f"--header {text!r} is not NAME:VALUE, such as X-Request-Id:7")
    return name.strip(), value.strip()


def check_region_bytes(region_bytes: int | None, *, is_shared: bool) -> None:
    """Raise InvalidArgumentError for --region-bytes without --shm."""
    if region_bytes is not None and not is_shared:
        raise InvalidArgumentError(
            "--region-bytes needs shared memory; give --shm system or --shm cuda, too"
        )
