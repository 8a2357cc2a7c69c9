"""Options of both commands of `endcap env`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.options import SERVER_PANEL

Real = Annotated[
    Path | None,
    typer.Option(
        help="The release's own stub for this Python, a file. Else the server's.",
        show_default=False,
        rich_help_panel=SERVER_PANEL,
    ),
]
Tritonserver = Annotated[
    Path | None,
    typer.Option(
        help="Server that runs the models, as for `endcap serve`: a program or an installation's "
        "folder.",
        show_default=False,
        rich_help_panel=SERVER_PANEL,
    ),
]
