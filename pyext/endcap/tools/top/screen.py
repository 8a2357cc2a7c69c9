"""A screen that is drawn anew again and again, until a key ends it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.live import Live

_END_KEYS = "qQ\x04"  # Ctrl-D, too


@contextlib.contextmanager
def key_pressed() -> Iterator[Callable[[float], bool]]:
    """Give what waits so many seconds and say whether one of the keys that end was pressed.

    Where standard input is no terminal it only waits.
    """
    if not sys.stdin.isatty():
        yield _only_wait
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: _ended_within(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Give what draws: on a screen of its own, or one below the other where there is none."""
    if not console.is_terminal:
        yield lambda shown: console.print(shown)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda shown: live.update(shown, refresh=True)


def _only_wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _ended_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready:
            typed = os.read(descriptor, 64)
            if not typed or any(key in typed.decode(errors="replace") for key in _END_KEYS):
                return True
    return False
