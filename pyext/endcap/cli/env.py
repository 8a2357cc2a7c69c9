"""endcap env: execution environments of Python-backend models."""

from __future__ import annotations

import typer

from endcap.cli import env_check, env_pack

app = typer.Typer(
    name="env",
    help="Execution environments of Python-backend models.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command("pack", epilog=env_pack.EXAMPLES)(env_pack.pack)
app.command("check", epilog=env_check.EXAMPLES)(env_check.check)
