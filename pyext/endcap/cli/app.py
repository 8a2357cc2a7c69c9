"""The program `endcap`: its commands, each of whose modules is imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from endcap.cli.console import standard_streams

# Modules of this package, in the order of --help. One has a function of its name with EXAMPLES, or
# `app`, a group of commands.
_COMMANDS = (
    "init",
    "serve",
    "validate",
    "infer",
    "load",
    "evaluate",
    "parity",
    "batch",
    "demo",
    "doctor",
    "env",
    "stub",
    "dali",
)
_MARKUP: Final = "markdown"


def _add_command(program: typer.Typer, name: str) -> None:
    module = importlib.import_module(f"endcap.cli.{name}")
    if hasattr(module, "app"):
        program.add_typer(module.app)
    else:
        program.command(name, epilog=module.EXAMPLES)(getattr(module, name))


class _LazyGroup(TyperGroup):
    """The commands, each of which is imported and built when it is first asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(_COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None where there is none of the name."""
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            program = typer.Typer(rich_markup_mode=_MARKUP)
            program.callback()(_options)
            _add_command(program, cmd_name)
            self.commands[cmd_name] = typer.main.get_group(program).commands[cmd_name]
        return self.commands.get(cmd_name)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"endcap {importlib.metadata.version('endcap')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def program(*, with_commands: bool = False) -> typer.Typer:
    """Return the program.

    Args:
        with_commands: Whether its commands are registered, so that they can be listed. Without, a
            run imports the one that it needs.
    """
    made = typer.Typer(
        name="endcap",
        cls=TyperGroup if with_commands else _LazyGroup,
        help="Pre- and postprocessing for NVIDIA Triton: image files in, detections out.",
        epilog="Start with `endcap demo`. For a network of yours: `endcap init MODEL.onnx -o "
        "models`, `endcap serve models`, and in a second shell `endcap infer photo.jpg`. "
        "`endcap COMMAND --help` has examples.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=_MARKUP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    if with_commands:
        for name in _COMMANDS:
            _add_command(made, name)
    return made


app = program()


def main() -> None:
    """Entry point of the console script."""
    with standard_streams():
        app()
