"""Options that only `endcap infer` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.options import SENDING_PANEL

_OUTPUT = "Output"
_COMPARISON = "Comparison"

Images = Annotated[
    list[str], typer.Argument(help="Files, folders and glob patterns.", metavar="IMAGE...")
]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Look into the folders of a folder, too.")
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Send over one gRPC stream, which a decoupled model needs.",
        rich_help_panel=SENDING_PANEL,
    ),
]
Classify = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Ask a classifier for its K best classes, by Triton's classification extension.",
        metavar="K",
        show_default=False,
        rich_help_panel=SENDING_PANEL,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=_OUTPUT)
]
AsCsv = Annotated[
    bool,
    typer.Option("--csv", help="Print CSV, a row for each detection.", rich_help_panel=_OUTPUT),
]
AsCoco = Annotated[
    bool,
    typer.Option("--coco", help="Print a data set in COCO's JSON format.", rich_help_panel=_OUTPUT),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File for the report, instead of printing it.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Draw = Annotated[
    Path | None,
    typer.Option(
        help="Folder for pictures with what was found drawn on them.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Class names, one per line. Else the server's.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option(
        help="Model repository that is served: runs its network on the same images without a "
        "server, between OpenCV and NumPy, and compares.",
        metavar="REPOSITORY",
        show_default=False,
        rich_help_panel=_COMPARISON,
    ),
]
Network = Annotated[
    Path | None,
    typer.Option(
        help="ONNX file for --compare. Else the repository's model.onnx.",
        metavar="FILE.onnx",
        show_default=False,
        rich_help_panel=_COMPARISON,
    ),
]
