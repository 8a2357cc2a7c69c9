"""Options that several commands have, each declared once; the defaults stand with the commands."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.region_size import byte_count

SERVER_PANEL = "Server"
CONNECTION_PANEL = "Connection"
SENDING_PANEL = "How images are sent"


class ProtocolName(str, Enum):
    """What `--protocol` takes."""

    grpc = "grpc"
    http = "http"


class SharedMemory(str, Enum):
    """What `--shm` takes."""

    none = "none"
    system = "system"
    cuda = "cuda"


class CompressionName(str, Enum):
    """What `--compression` takes."""

    gzip = "gzip"
    deflate = "deflate"


Url = Annotated[
    str,
    typer.Option(
        help="HOST:PORT; the port may be left out, grpc://, grpcs://, http:// or https:// put "
        "before.",
        rich_help_panel=SERVER_PANEL,
    ),
]
Protocol = Annotated[
    ProtocolName | None,
    typer.Option(
        help="Else the URL's, else grpc.", show_default=False, rich_help_panel=SERVER_PANEL
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
        help="Memory that tensors go through, shared with a server on this machine: system "
        "memory or a GPU's. The server has to allow it: `endcap serve --client-shared-memory`.",
        rich_help_panel=SENDING_PANEL,
    ),
]
RegionBytes = Annotated[
    int | None,
    typer.Option(
        parser=byte_count,
        help="Room for a request in shared memory, as 16777216, 16M or 16MiB. Else 8 MiB for "
        "each image that is sent as it is, and what the tensors need.",
        metavar="SIZE",
        show_default=False,
        rich_help_panel=SENDING_PANEL,
    ),
]
UseAsyncio = Annotated[
    bool,
    typer.Option("--async", help="Send from an event loop.", rich_help_panel=SENDING_PANEL),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        help="Sent with each request; may be given several times.",
        metavar="NAME:VALUE",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of the authorities that the server's certificate may be of; speaks TLS.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Compression = Annotated[
    CompressionName | None,
    typer.Option(
        help="Of requests. JPEG files do not get smaller by it.",
        show_default=False,
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Retries = Annotated[
    int,
    typer.Option(
        min=0,
        help="How often to ask again a server that is not available.",
        rich_help_panel=CONNECTION_PANEL,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")]
