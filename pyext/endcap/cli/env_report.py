"""Prints what an environment holds."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from endcap.environment.checking import CheckedEnvironment
from endcap.environment.options import NumpyLimit
from endcap.terminal.console import PlainConsole, printable


def report(
    checked: CheckedEnvironment, limit: NumpyLimit, *, heading: str, archive_bytes: int | None
) -> None:
    """Print sizes, the limit on NumPy, and a table of all packages, the largest first."""
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    for package in sorted(checked.packages, key=lambda each: (-each.size_bytes, each.name)):
        size = _megabytes(package.size_bytes)
        table.add_row(*(Text(printable(cell)) for cell in (
            f"  {package.name}", package.version, package.installer, size)))  # fmt: skip
    sizes = [f"{_megabytes(checked.size_bytes)} unpacked"]
    if archive_bytes is not None:
        sizes.insert(0, _megabytes(archive_bytes))
    console.print(Text(printable(heading), style="bold"), soft_wrap=True)
    console.print(Text(f"{', '.join(sizes)}, Python {checked.python}"), soft_wrap=True)
    wanted = f"must be numpy{limit.specifier}" if limit.specifier else "may be any"
    line = f"NumPy {checked.numpy}; {wanted}: {limit.reason}"
    console.print(Text(printable(line)), soft_wrap=True)
    console.print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
