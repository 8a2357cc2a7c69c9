"""How a command fails: one sentence on standard error and an exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Iterator
from types import FrameType

import typer

from endcap.errors import EndcapError

SOME_IMAGE_FAILED = 1
CANNOT_RUN = 2


class _StopRequested(BaseException):
    """A signal asked this program to end; no handler of ordinary errors may swallow it."""


@contextlib.contextmanager
def one_sentence(*, verbose: bool) -> Iterator[None]:
    """Turns expected errors into a sentence and exit code 2; with `verbose` a traceback too."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read our output has seen enough: nothing to report
    except (EndcapError, OSError) as error:
        if verbose:
            traceback.print_exc()
        say(f"endcap: {_sentence(error)}")
        raise typer.Exit(CANNOT_RUN) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextlib.contextmanager
def stopped_by_signals(*, exit_code: int) -> Iterator[None]:
    """Leaves the block at the first SIGINT, SIGTERM or SIGHUP, and the program with `exit_code`.

    What the block has opened is closed in peace: further signals are ignored while that goes on.
    """
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signals.append(signal.SIGHUP)

    def request_stop(number: int, frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise _StopRequested

    previous = {number: signal.signal(number, request_stop) for number in signals}
    try:
        yield
    except _StopRequested:
        raise typer.Exit(exit_code) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def say(sentence: str) -> None:
    """Prints to standard error, where results of a command never go."""
    print(printable(sentence), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Returns the text with control characters escaped: a file's name may hold any."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
