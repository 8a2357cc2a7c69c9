"""Output of a server: its last lines, a copy in a file, warnings on standard error."""

from __future__ import annotations

import collections
import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from endcap._system.written_file import refuse_foreign_link
from endcap.triton.errors import ServerError

_KEPT_LINES = 2000
_PROBLEM = re.compile(r"[WEF]\d{4} ")  # severity and date, for example "E1120 13:46:42.870067"
# What terminals obey: control characters but tabs and ends of lines; in UTF-8 some have two bytes.
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


class LogPump:
    """Copies a server's output from its pipe to where it is wanted, in a thread of its own."""

    def __init__(
        self,
        source: IO[bytes],
        *,
        copy: IO[bytes] | None = None,
        echo: IO[bytes] | None = None,
        echo_all: bool = False,
        renamed: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Start the thread.

        Args:
            source: The end of the pipe that is read; the server writes to the other one.
            copy: Gets every line.
            echo: Gets warnings and errors after `echo_from_now_on`, control characters escaped.
            echo_all: Whether `echo` gets every line, from the first one on.
            renamed: A path as the server prints it, and what stands in its place everywhere.
        """
        self._source = source
        self._renamed = renamed
        self._copy = copy
        self._echo = echo
        self._echo_all = echo_all
        self._echo_on = False
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._thread = threading.Thread(target=self._run, name="tritonserver log", daemon=True)
        self._thread.start()

    def echo_from_now_on(self) -> None:
        """Write to `echo` from now on; `failure_reasons` has what a start prints."""
        self._echo_on = True

    def lines(self) -> list[str]:
        """Return the last lines, at most 2000."""
        return list(self._lines)

    def join(self, timeout_s: float) -> None:
        """Wait until the server has closed its output."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        with self._source:
            for printed in self._source:
                raw = printed.replace(*self._renamed) if self._renamed else printed
                line = raw.decode("utf-8", errors="replace").rstrip("\n")
                self._lines.append(line)
                if self._copy is not None:
                    _write(self._copy, raw)
                is_shown = self._echo_all or (self._echo_on and _PROBLEM.match(line))
                if self._echo is not None and is_shown:
                    _write(self._echo, _CONTROL.sub(_escaped, raw))


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in match.group())


def _write(target: IO[bytes], raw: bytes) -> None:
    # A full disk or a closed terminal must not end the reading: the server would block on its pipe.
    with contextlib.suppress(OSError, ValueError):
        target.write(raw)
        target.flush()


_CANNOT_LOCK = (errno.ENOLCK, errno.EOPNOTSUPP)  # some network file systems


@contextlib.contextmanager
def open_log_file(path: Path, repository: Path) -> Iterator[IO[bytes]]:
    """Open the log file of a server at its end; a regular file is locked until the block ends.

    Args:
        path: The file, which keeps what it holds, or a pipe that is read, or a device.
        repository: The models that the server is about to serve.

    Yields:
        The file, to write to.

    Raises:
        ServerError: The file is one of the repository's, or another server writes its log to it.
        OSError: It cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    refuse_foreign_link(path)
    is_new = not path.exists()
    try:
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ServerError(
                f"log file {path} is a pipe that nobody reads; start its reader first"
            ) from error
        raise
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            yield file
            return
        if not is_new:
            _refuse_files_of(repository, path, found)
        _lock(path, descriptor)
        try:
            if found.st_size > 0:
                file.write(b"\n")  # between the runs
            yield file
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked children hold the descriptor, too


def _refuse_files_of(repository: Path, path: Path, found: os.stat_result) -> None:
    models = [folder for folder in repository.iterdir() if folder.is_dir()]
    visited: set[tuple[int, int]] = set()
    for folder, below, names in itertools.chain.from_iterable(
        os.walk(model, followlinks=True) for model in models
    ):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in visited:  # links may lead round in a circle
            below.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        for name in names:
            file = Path(folder, name)
            with contextlib.suppress(OSError):  # a link to nothing: not the file that is open
                if os.path.samestat(file.stat(), found):
                    raise ServerError(
                        f"log file {path} is {file} of the model repository, and would replace "
                        "it; give another file"
                    )


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ServerError(
            f"log file {path} is in use by another server; give each server its own"
        ) from error
    except OSError as error:
        if error.errno not in _CANNOT_LOCK:
            raise
