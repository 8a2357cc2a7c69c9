"""Writes docs/cli.md from the program itself: every command with its arguments and options.

python scripts/cli_page.py > docs/cli.md

It reads the signatures of the commands, not typer's help, whose layout differs between versions.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from endcap.cli.app import program

INTRODUCTION = """\
# Commands

Made from the program by `python scripts/cli_page.py > docs/cli.md`; a test compares.
`endcap COMMAND --help` prints the same, `endcap --version` the version.

Exit codes: 0 when all went well, 1 when an image failed or a check did, 2 when the command could
not run, 3 for a defect of endcap, 130 when it was interrupted. What went wrong is one message on
standard error; `--verbose` adds the traceback.
"""

_VALUES: dict[Any, str] = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}


def parameters(command: Callable[..., Any]) -> list[tuple[str, Any, Any, Any]]:
    """Name, type, typer's description and default of each parameter."""
    hints = typing.get_type_hints(command, include_extras=True)
    found = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind, info = typing.get_args(hints[name])[:2]
        if info.hidden:
            continue
        found.append((name, _without_none(kind), info, parameter.default))
    return found


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
    return kind


def row(name: str, kind: Any, info: ArgumentInfo | OptionInfo, default: Any) -> str:
    """One line of a command's table."""
    if isinstance(info, ArgumentInfo):
        written = placeholder(name, kind, info)
    else:
        written = f"{', '.join(spellings(name, kind, info))} {value(kind, info)}".rstrip()
    notes = ", ".join(filter(None, [default_text(kind, info, default), bounds(info)]))
    return f"| `{_cell(written)}` | {_cell(info.help or '')} | {_cell(notes)} |"


def placeholder(name: str, kind: Any, info: ArgumentInfo, default: Any = ...) -> str:
    """Return how an argument is written: with dots where there may be several."""
    written = info.metavar or name.upper()
    written = written if default is not None else f"[{written}]"
    return f"{written}..." if typing.get_origin(kind) is list else written


def spellings(name: str, kind: Any, info: OptionInfo) -> list[str]:
    """Return the ways to write an option, the short one first."""
    # Within Annotated the first of typer.Option's spellings stands in the place of a default.
    first = [info.default] if isinstance(info.default, str) else []
    given = [*first, *(info.param_decls or [])]
    if given:
        return sorted(given, key=len)
    long = f"--{name.replace('_', '-')}"
    return [f"{long} / --no-{long[2:]}" if kind is bool else long]


def value(kind: Any, info: OptionInfo) -> str:
    """Return the placeholder behind an option."""
    if kind is bool:
        return ""
    if info.metavar:
        return info.metavar
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return _VALUES[kind]


def default_text(kind: Any, info: ArgumentInfo | OptionInfo, default: Any) -> str:
    """Return the default, where there is one to speak of."""
    if default is inspect.Parameter.empty:
        return "required"
    if default is None or kind is bool or info.show_default is False:
        return ""
    shown = default.value if isinstance(default, Enum) else default
    return f"default `{shown}`"


def bounds(info: ArgumentInfo | OptionInfo) -> str:
    """Return the range of a number."""
    if info.min is not None and info.max is not None:
        return f"{info.min} to {info.max}"
    return f"at least {info.min}" if info.min is not None else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def all_commands() -> list[tuple[str, CommandInfo]]:
    """Every command with the words that call it, those of groups such as `stub` last."""
    whole = program(with_commands=True)
    found = [(str(each.name), each) for each in whole.registered_commands]
    for group in whole.registered_groups:
        assert group.typer_instance is not None  # add_typer has set it
        name = group.typer_instance.info.name
        found += [
            (f"{name} {each.name}", each) for each in group.typer_instance.registered_commands
        ]
    return found


def section(name: str, command: CommandInfo) -> str:
    """One command."""
    assert command.callback is not None  # typer's decorator has set it
    rows = parameters(command.callback)
    arguments = [
        placeholder(name, kind, info, default)
        for name, kind, info, default in rows
        if isinstance(info, ArgumentInfo)
    ]
    parts = [
        f"## endcap {name}",
        "```text\n" + " ".join(["endcap", name, *arguments, "[OPTIONS]"]) + "\n```",
        inspect.getdoc(command.callback) or "",
        "\n".join(["| | | |", "|---|---|---|", *(row(*each) for each in rows)]),
        (command.epilog or "").strip(),
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Print the page."""
    commands = all_commands()
    listing = "\n".join(
        f"- [`endcap {name}`](#endcap-{name.replace(' ', '-')}): "
        f"{(inspect.getdoc(each.callback) or '').splitlines()[0]}"
        for name, each in commands
    )
    sections = [section(*each) for each in commands]
    print("\n\n".join([INTRODUCTION.strip(), listing, *sections]))


if __name__ == "__main__":
    main()
