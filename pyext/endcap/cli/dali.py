"""endcap dali: the operators for NVIDIA DALI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.console import printable, step_status
from endcap.cli.options import command
from endcap.dali.building import build as build_operators

BUILD_EXAMPLES = """
**Examples**

- `endcap dali build`

- `endcap dali build --output /opt/endcap`

- `CXX=clang++ endcap dali build --force`

**Exit code**: 0 when the library is built, 2 when not: the error message says why.
"""

app = typer.Typer(
    name="dali",
    help="Endcap's stages as operators of NVIDIA DALI: `fn.endcap.preprocess` and others.",
    no_args_is_help=True,
)


@app.command("build", epilog=BUILD_EXAMPLES)
@command()
def build(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for a copy with the libraries that it needs, for Triton's DALI backend.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compile again.")] = False,
) -> None:
    """Compile the operators for the installed DALI.

    A library of operators works with one release of DALI. It is kept in ~/.cache/endcap/dali (or
    below XDG_CACHE_HOME), from where `endcap.dali.load()` takes it. The variable CXX names a C++20
    compiler; else it is g++ or clang++.
    """
    with step_status() as progress:
        built = build_operators(output, force=force, progress=progress)
    how = "built before" if built.cached else f"built in {built.seconds:.1f} s"
    print(printable(f"{built.path}: {how}"))
