"""Progress bars on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from endcap._system.stages import Stages
from endcap.terminal.console import PlainConsole
from endcap.terminal.failure import say

_SHOWN_FROM = 8


class _RateColumn(ProgressColumn):
    """Steps per second, over the last half minute at most."""

    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:.1f}/s", style="progress.data.speed")


@contextlib.contextmanager
def progress_bar(name: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step.

    The bar shows count, rate and remaining time, and is removed after the block; where the number
    of steps is not known (None), it pulses, and shows the time until now. There is none for few
    steps, or where standard error is no terminal.
    """
    console = PlainConsole(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(),
    )
    is_short = total is not None and total < _SHOWN_FROM
    silent = is_short or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)


@contextlib.contextmanager
def installing() -> Iterator[Stages]:
    """Yield a function that begins a stage: with a bar on a terminal, else with a line."""
    if PlainConsole(stderr=True).is_terminal:
        with stage_bar() as stages:
            yield stages
        return

    def begin(name: str, total: int | None) -> Callable[[], None]:
        say(f"endcap: {name} ...")
        return lambda: None

    yield begin


@contextlib.contextmanager
def step_status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the name of the current step, on a terminal only."""
    with PlainConsole(stderr=True).status("") as status:
        yield status.update


@contextlib.contextmanager
def stage_bar() -> Iterator[Stages]:
    """Yield a function that begins a stage, which replaces the bar of the stage before.

    A stage with an unknown number of steps has a pulsing bar. There is none where standard error is
    no terminal.
    """
    console = PlainConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:

        def begin(name: str, total: int | None) -> Callable[[], None]:
            for before in progress.task_ids:
                progress.remove_task(before)
            task = progress.add_task(name, total=total)
            return lambda: progress.advance(task)

        yield begin
