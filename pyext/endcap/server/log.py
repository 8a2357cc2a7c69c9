"""Output of a server: its last lines, a copy in a file, warnings on standard error."""

from __future__ import annotations

import collections
import contextlib
import re
import signal
import threading
from collections.abc import Sequence
from typing import IO

# Begins the lines that a stub of `endcap env stub` prints when it refuses to start a model.
REFUSAL = "endcap stub: "

_KEPT_LINES = 2000
_SHOWN_LINES = 10
_PROBLEM = re.compile(r"[WEF]\d{4} ")  # severity and date, for example "E1120 13:46:42.870067"
# Without a GPU every start logs an error of CudaDriverHelper.
_ERROR = re.compile(rf"[EF]\d{{4}} (?!.*CudaDriverHelper)|error: |\[libprotobuf ERROR |{REFUSAL}")
_RECORD = re.compile(r'[IWEF]\d{4} \S+ \d+ \S+\] "?(.*?)"?$')  # as Triton writes a line
_PYTHON_PLACE = re.compile(r"\n+At:\n\s*([^\n]+).*", re.DOTALL)  # of a Python traceback
# What terminals obey: control characters but tabs and ends of lines; in UTF-8 some have two bytes.
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_BUS_ERROR = "a client's shared-memory region was truncated, or /dev/shm is full"


class LogPump:
    """Copies a server's output from its pipe to where it is wanted, in a separate thread."""

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
        """Write to `echo` from now on; the error of a failed start has what a start prints."""
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


def describe_exit(code: int) -> str:
    """Return "exit code 1" or "signal SIGSEGV" for a process's exit code."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
    return f"signal {name} ({_BUS_ERROR})" if name == "SIGBUS" else f"signal {name}"


def summarise_log(lines: Sequence[str], *, only_errors: bool) -> str:
    """Return the last lines of a server's log in one line.

    Args:
        lines: What the server has printed.
        only_errors: Leave out lines that are not errors, where there are errors.
    """
    errors = [line for line in lines if _ERROR.match(line)] if only_errors else []
    shown = [_shorten(line) for line in (errors or lines) if line.strip()]
    return "; ".join([*dict.fromkeys(shown)][-_SHOWN_LINES:]) or "its log is empty"


def _shorten(line: str) -> str:
    """Return a line's message without severity, time and all but the innermost place."""
    record = _RECORD.match(line)
    message = record[1].replace("\\n", "\n") if record else line
    return " ".join(_PYTHON_PLACE.sub(r" (at \1)", message).split())
