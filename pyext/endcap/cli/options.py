"""Options that several commands have, each declared once; the defaults stand with the commands."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

SERVER_PANEL = "Server"


class ProtocolName(str, Enum):
    """What `--protocol` takes."""

    grpc = "grpc"
    http = "http"


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
    int, typer.Option(min=1, help="Requests in flight at once.", rich_help_panel=SERVER_PANEL)
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")]
