"""Progress of work that takes seconds to minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

# Begins a stage: what it is called and how many steps it has, None where that is not known. Returns
# what is to be called at each step done.
Stages = Callable[[str, int | None], Callable[[], None]]

# Opens the display of progress; entered only around work that is really done.
Progress = Callable[[], AbstractContextManager[Stages]]


def silent(name: str, total: int | None) -> Callable[[], None]:
    """Tell nobody."""
    return lambda: None


def no_progress() -> AbstractContextManager[Stages]:
    """Show nothing."""
    return contextlib.nullcontext(silent)
