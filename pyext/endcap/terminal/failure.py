"""How a command fails: an error message on standard error and an exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

import typer

from endcap.errors import EndcapError
from endcap.terminal.console import printable

SOME_IMAGE_FAILED = 1
CANNOT_RUN = 2
INTERNAL_ERROR = 3
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells count
READER_GONE = 141  # likewise SIGPIPE

# `timeout` and terminals send one signal to a program and once more to its group.
_ONE_REQUEST_S = 0.5


class StopRequested(BaseException):
    """A signal asked this program to end; no handler of ordinary errors may swallow it."""


@contextlib.contextmanager
def report_errors(*, verbose: bool) -> Iterator[None]:
    """Turn errors into an error message and an exit code; with `verbose` a traceback too.

    Expected ones, EndcapError and OSError, end with exit code 2. Any other is a defect of endcap:
    exit code 3.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise  # typer ends the program as they say; a broken pipe's reader has seen enough
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
    """Return an error's message; the system's own with the name of the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextlib.contextmanager
def stopped_by_signals(*, exit_code: int) -> Iterator[None]:
    """Leave the block at the first SIGINT, SIGTERM or SIGHUP, and the program with `exit_code`.

    What the block has opened is closed in peace. A second signal cuts that short: it ends waiting,
    and then the program without regard to threads that still wait. A third ends it where it is.
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
        raise StopRequested

    previous = {number: signal.signal(number, request_stop) for number in signals}
    try:
        yield
    except StopRequested:
        if len(requests) > 1:
            _end_now(exit_code)
        raise typer.Exit(exit_code) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end_now(exit_code: int) -> NoReturn:
    """End the program without waiting for its threads, what it has printed written out."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, typer.Exit):
            stream.flush()
    os._exit(exit_code)


def say(message: str) -> None:
    """Print to standard error, where results of a command never go."""
    print(printable(message), file=sys.stderr, flush=True)
