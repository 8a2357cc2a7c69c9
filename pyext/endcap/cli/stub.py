"""endcap stub: the stub in a Python model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.console import printable
from endcap.cli.env import ModelServer, RealStub
from endcap.cli.options import command
from endcap.environment.packing import RUNNING_PYTHON
from endcap.environment.stub import install as install_stub

INSTALL_EXAMPLES = """
**Examples**

- `endcap stub install model_repository/my_model`

- `endcap stub install model_repository/my_model --python 3.12`

- `endcap stub install my_model --python 3.9 --real stubs/3.9/stub`
"""

app = typer.Typer(
    name="stub",
    help="The stub in a Python model's folder: it checks the model's environment before Triton's "
    "own stub starts.",
    no_args_is_help=True,
)


@app.command("install", epilog=INSTALL_EXAMPLES)
@command()
def install(
    model_dir: Annotated[
        Path, typer.Argument(help="Folder of one model of the repository.", metavar="MODEL_DIR")
    ],
    python: Annotated[
        str,
        typer.Option(
            help="Version of the model's Python. Default: the one that runs endcap.",
            metavar="3.N",
            show_default=False,
        ),
    ] = RUNNING_PYTHON,
    real: RealStub = None,
    tritonserver: ModelServer = None,
) -> None:
    """Copy the stub into a model's folder, next to the one of the server's release."""
    placed = install_stub(model_dir, python_version=python, real=real, tritonserver=tritonserver)
    origin = f", from {placed.release}" if placed.release else ""
    numpy = ", needs numpy<2" if placed.description.takes_numpy_2 is False else ""
    lines = (
        f"{placed.front}: the stub that Triton starts",
        f"{placed.real}: for Python {placed.description.python}{origin}{numpy}",
        f"{placed.settings}: what they belong to",
    )
    print(*map(printable, lines), sep="\n")
