"""Standard output and standard error of the commands."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

import typer

from endcap.terminal.failure import CANNOT_RUN, READER_GONE, message_of, say

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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
    sys.stdout = _named(sys.stdout, "standard output")
    sys.stderr = _named(sys.stderr, "standard error")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
    except OSError as error:
        say(f"endcap: {message_of(error)}")
        sys.exit(CANNOT_RUN)
    except typer.Exit as gone:
        sys.exit(gone.exit_code)


def _named(stream: TextIO, name: str) -> TextIO:
    """Return the stream with errors that name it; text outside of its encoding is escaped."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_NamedStream(stream.fileno(), name)),
        encoding=stream.encoding,
        errors="backslashreplace",  # names of files may not fit the terminal's encoding
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _NamedStream(io.FileIO):
    """A stream that raises its first error and discards what is written after it."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._shown = name
        self._lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self._lost:
            return len(memoryview(data).cast("B"))
        try:
            return super().write(data)
        except BrokenPipeError:
            self._lost = True
            raise typer.Exit(READER_GONE) from None
        except OSError as error:
            self._lost = True
            raise OSError(error.errno, error.strerror, self._shown) from error
