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

_STATUS = 128 + signal.SIGTERM  # as shells say it
# A supervisor's signal and its process group's come within an instant: the first one counts.
_REPEATED_WITHIN_S = 1.0
_SENT_AGAIN_AFTER_S = 0.1


class _Sigterm:
    """What became of the signals so far. Of the main thread only, where handlers run."""

    raised_at = -_REPEATED_WITHIN_S
    deferring = 0  # how many blocks, one in the other
    came = False


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
    """Keep that SystemExit from breaking off the block, which must not await anything.

    Args:
        then: What becomes of a signal that came. "exit" raises it at the end of the block. "send
            again" is for finalisers, out of which Python lets no exception: the signal comes anew a
            moment later. "nothing" is for the end of the program.
    """
    if not _in_main_thread():
        yield
        return
    _Sigterm.deferring += 1
    try:
        yield
    finally:
        _Sigterm.deferring -= 1
        if _Sigterm.came and not _Sigterm.deferring:
            _Sigterm.came = False
            if then == "exit":
                _exit()
            if then == "send again":
                _send_again()


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    if _Sigterm.deferring:
        _Sigterm.came = True
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
        # Not in the midst of whatever task or part of the loop runs now.
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
    # What is to be cleaned up is the parent's.
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_default_in_child)
