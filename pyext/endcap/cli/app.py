"""The program `endcap`."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from endcap.cli import (
    batch,
    bundle,
    dali,
    demo,
    doctor,
    env,
    evaluate,
    infer,
    init,
    load,
    parity,
    serve,
    server,
    stub,
    top,
    tune,
    validate,
)
from endcap.terminal.streams import standard_streams

app = typer.Typer(
    name="endcap",
    help="Pre- and postprocessing for NVIDIA Triton: image files in, detections out.",
    epilog="Start with `endcap demo`. For a network of yours: `endcap init MODEL.onnx -o models`, "
    "`endcap serve models`, and in a second shell `endcap infer photo.jpg`. "
    "`endcap COMMAND --help` has examples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init", epilog=init.EXAMPLES)(init.init)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("validate", epilog=validate.EXAMPLES)(validate.validate)
app.command("infer", epilog=infer.EXAMPLES)(infer.infer)
app.command("load", epilog=load.EXAMPLES)(load.load)
app.command("tune", epilog=tune.EXAMPLES)(tune.tune)
app.command("top", epilog=top.EXAMPLES)(top.top)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("parity", epilog=parity.EXAMPLES)(parity.parity)
app.command("batch", epilog=batch.EXAMPLES)(batch.batch)
app.command("bundle", epilog=bundle.EXAMPLES)(bundle.bundle)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.add_typer(server.app)
app.add_typer(env.app)
app.add_typer(stub.app)
app.add_typer(dali.app)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"endcap {importlib.metadata.version('endcap')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the console script."""
    with standard_streams():
        app()
