"""Failures of commands: error messages on standard error, exit codes, signals."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

import platformdirs
import typer

from endcap.errors import EndcapError
from endcap.terminal.console import printable

SOME_IMAGE_FAILED = 1
CANNOT_RUN = 2
INTERNAL_ERROR = 3
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells count
READER_GONE = 141  # 128 and the number of SIGPIPE

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# `timeout` and terminals send one signal to a program and once more to its group.
_ONE_REQUEST_S = 0.5


class StopRequested(BaseException):
    """A signal requested the end of this program; not an Exception, so that no handler hides it."""


class _Stop:
    """Whether a signal requested the end, has to wait for the end of a block, and does wait."""

    is_requested = False
    deferring_blocks = 0
    is_waiting = False


_STOP = _Stop()


@contextlib.contextmanager
def stop_deferred() -> Iterator[None]:
    """Let the first signal that `stopped_by_signals` catches wait for the end of the block.

    For what must not be done in part, such as a line of a report. A second signal does not wait.
    """
    _STOP.deferring_blocks += 1
    try:
        yield
    finally:
        _STOP.deferring_blocks -= 1
        if _STOP.is_waiting and not _STOP.deferring_blocks:
            _STOP.is_waiting = False
            raise StopRequested


def check_stop() -> None:
    """Raise StopRequested where a signal has requested the end; for each turn of an endless loop.

    What the handler of a signal raises is lost where Python calls it from a finalizer or a callback
    of an extension, such as gRPC's.
    """
    if _STOP.is_requested and not _STOP.deferring_blocks:
        raise StopRequested


@contextlib.contextmanager
def report_errors(*, verbose: bool) -> Iterator[None]:
    """Turn exceptions into an error message and an exit code; with `verbose` a traceback, too.

    EndcapError and OSError end with exit code 2. Any other exception is a defect of endcap: exit
    code 3.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise  # handled by typer
    except (EndcapError, OSError) as error:
        if verbose:
            traceback.print_exc()
        say(f"endcap: {message_of(error)}")
        raise typer.Exit(CANNOT_RUN) from error
    except Exception as error:
        advice = "report it"
        if verbose:
            traceback.print_exc()
        else:
            advice = "run it again with --verbose and report what that shows"
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        say(f"endcap: internal error ({reason}): this is a defect of endcap; {advice}")
        raise typer.Exit(INTERNAL_ERROR) from error


def message_of(error: Exception) -> str:
    """Return the message of an error; for a system error with the name of the file.

    On a full disk, the message names the variable that decides on the folder.
    """
    if not (isinstance(error, OSError) and error.filename and error.strerror):
        return str(error)
    message = f"{error.filename}: {error.strerror}"
    if error.errno in _DISK_FULL:
        path = os.path.realpath(os.fsdecode(error.filename))
        if path.startswith(os.path.realpath(tempfile.gettempdir()) + os.sep):
            message += "; free space there, or set TMPDIR to another folder"
        elif path.startswith(os.path.realpath(platformdirs.user_cache_path("endcap"))):
            message += "; free space there, or set XDG_CACHE_HOME to another folder"
    return message


@contextlib.contextmanager
def stopped_by_signals(*, exit_code: int) -> Iterator[None]:
    """Leave the block at the first SIGINT, SIGTERM or SIGHUP, and the program with `exit_code`.

    Resources of the block are closed as usual. A second signal interrupts that and ends the program
    without waiting for threads. A third ends it at once.
    """
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signals.append(signal.SIGHUP)

    requests: list[float] = []

    def request_stop(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if requests and now - requests[-1] < _ONE_REQUEST_S:
            return
        requests.append(now)
        if len(requests) > 2:
            os._exit(exit_code)
        _STOP.is_requested = True
        if _STOP.deferring_blocks and len(requests) == 1:
            _STOP.is_waiting = True
            return
        raise StopRequested

    previous = {number: signal.signal(number, request_stop) for number in signals}
    try:
        yield
    except StopRequested:
        if len(requests) > 1:
            _end_now(exit_code)
        raise typer.Exit(exit_code) from None
    finally:
        _STOP.is_requested = False
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end_now(exit_code: int) -> NoReturn:
    """Flush the standard streams, and end the program without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, typer.Exit):
            stream.flush()
    os._exit(exit_code)


def say(message: str) -> None:
    """Print a message to standard error."""
    print(printable(message), file=sys.stderr, flush=True)
