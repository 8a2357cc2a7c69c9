"""SIGTERM, whose default action ends a process without any of its clean-up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Literal

_STATUS = 128 + signal.SIGTERM  # the exit status in shells
# A supervisor may signal the process and its group at once: the second signal is ignored.
_REPEATED_WITHIN_S = 1.0
_SENT_AGAIN_AFTER_S = 0.1


class _Sigterm:
    """State of the handler, which runs in the main thread only."""

    raised_at = -_REPEATED_WITHIN_S
    deferring = 0  # the number of nested blocks that defer it
    pending = False


def exit_on_sigterm() -> None:
    """Make SIGTERM a SystemExit(143) in the main thread, so that blocks end and atexit runs.

    Where an event loop runs there, it is the loop that ends so: asyncio.run then cancels all tasks,
    and raises the SystemExit when they have ended. Tasks of a loop that is run otherwise are left
    as they are, and Python says so.

    Only where SIGTERM has its default action: a handler of the program's own stays as it is.
    Without effect outside the main thread, where Python sets no handlers.
    """
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


@contextlib.contextmanager
def defer_sigterm(then: Literal["exit", "send again", "nothing"] = "exit") -> Iterator[None]:
    """Defer the SystemExit of SIGTERM to the end of the block, which must not await anything.

    Args:
        then: The action at the end of the block where a signal arrived. "exit" raises the
            SystemExit; "send again", for finalisers, out of which Python lets no exception, repeats
            the signal a moment later; "nothing" is for the end of the program.
    """
    if not _in_main_thread():
        yield
        return
    _Sigterm.deferring += 1
    try:
        yield
    finally:
        _Sigterm.deferring -= 1
        if _Sigterm.pending and not _Sigterm.deferring:
            _Sigterm.pending = False
            if then == "exit":
                _exit()
            if then == "send again":
                _send_again()


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    if _Sigterm.deferring:
        _Sigterm.pending = True
        return
    now = time.monotonic()
    if now - _Sigterm.raised_at >= _REPEATED_WITHIN_S:
        _Sigterm.raised_at = now
        _exit()


def _exit() -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        _raise_exit()
    else:
        # Not within the task or callback that runs now.
        loop.call_soon_threadsafe(_raise_exit)


def _raise_exit() -> None:
    raise SystemExit(_STATUS)


def _send_again() -> None:
    timer = threading.Timer(_SENT_AGAIN_AFTER_S, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _default_in_child() -> None:
    # The parent process does the clean-up.
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_default_in_child)
