"""What the commands print: consoles, progress, error messages and exit codes, and signals."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

from endcap.errors import EndcapError

SOME_IMAGE_FAILED = 1
CANNOT_RUN = 2
INTERNAL_ERROR = 3
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells count
READER_GONE = 141  # 128 and the number of SIGPIPE

_SHOWN_FROM = 8  # steps of a progress bar
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# `timeout` and terminals send one signal to a program and once more to its group.
_ONE_REQUEST_S = 0.5


class PlainConsole(Console):
    """A console that escapes control characters in texts from files and servers.

    Names of files, models, classes and tensors may hold any. Styles and the console's own control
    codes are kept.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments with their texts escaped."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(text), style)

    def on_broken_pipe(self) -> NoReturn:
        """End the program as SIGPIPE would; rich's own exit code would be 1."""
        raise typer.Exit(READER_GONE)


def printable_lines(text: str) -> str:
    """Return the text with control characters escaped, except for line ends."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return the text with control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def count(number: int, noun: str) -> str:
    """Return "1 picture" or "2 pictures"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(message: str) -> None:
    """Print a message to standard error."""
    print(printable(message), file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_bar(name: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step.

    The bar shows count and remaining time, and is removed after the block; where the number
    of steps is not known (None), it pulses, and shows the time until now. There is none for few
    steps, or where standard error is not a terminal.
    """
    console = PlainConsole(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(),
    )
    is_short = total is not None and total < _SHOWN_FROM
    silent = is_short or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)


@contextlib.contextmanager
def step_status() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the name of the current step, on a terminal only."""
    with PlainConsole(stderr=True).status("") as status:
        yield status.update


def installing(message: str) -> None:
    """Print that a download or an installation begins."""
    say(f"endcap: {message} ...")


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
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise  # handled by typer
    except BrokenPipeError as error:  # typer's own exit code would be 1
        raise typer.Exit(READER_GONE) from error
    except (EndcapError, OSError) as error:
        if verbose:
            traceback.print_exc()
        say(f"endcap: {describe_error(error)}")
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


def describe_error(error: Exception) -> str:
    """Return the message of an error; for a system error with the name of the file.

    Without a temporary folder the message names the variable that decides on it. An error of a
    write that names no file is one of standard output: others are named by `_files`.
    """
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    if error.strerror.startswith("No usable temporary directory"):
        return f"{error.strerror}; set TMPDIR to a folder that you may write to"
    if not error.filename:
        return f"standard output: {error.strerror}" if error.errno in _DISK_FULL else str(error)
    return f"{error.filename}: {error.strerror}"


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
        if len(requests) > 1:  # threads are not waited for
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, typer.Exit):
                    stream.flush()
            os._exit(exit_code)
        raise typer.Exit(exit_code) from None
    finally:
        _STOP.is_requested = False
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """End the program with a message where standard output is closed or cannot be written.

    A reader that closes it early, as `head` does, ends the program without a message.
    """
    if sys.stderr is None:  # closed: no other file may get its descriptor
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        say("endcap: standard output is closed: give it a file, or /dev/null")
        sys.exit(CANNOT_RUN)
    for stream in (sys.stdout, sys.stderr):  # names of files may not fit the terminal's encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
    except BrokenPipeError:
        code = READER_GONE
    except OSError as error:
        say(f"endcap: {describe_error(error)}")
        code = CANNOT_RUN
    else:
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more
    sys.exit(code)
