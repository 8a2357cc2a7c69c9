"""How work that takes minutes tells where it is."""

from __future__ import annotations

from collections.abc import Callable

# Begins a stage: what it is called and how many steps it has, None where that is not known. Returns
# what is to be called at each step done.
Stages = Callable[[str, int | None], Callable[[], None]]


def silent(name: str, total: int | None) -> Callable[[], None]:
    """Tells nobody."""
    return lambda: None
