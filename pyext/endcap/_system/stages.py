"""Progress of work that takes seconds to minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

# Begins a stage with a name and a number of steps, None if unknown. Returns the function to call
# after each step.
Stages = Callable[[str, int | None], Callable[[], None]]

# Opens the display of progress; entered only where there is work to do.
Progress = Callable[[], AbstractContextManager[Stages]]


def silent(name: str, total: int | None) -> Callable[[], None]:
    """Begin a stage without showing it."""
    return lambda: None


def no_progress() -> AbstractContextManager[Stages]:
    """Show nothing."""
    return contextlib.nullcontext(silent)
