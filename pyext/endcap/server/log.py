"""Reads what tritonserver prints: keeps its last lines, and finds in them why a start failed."""

from __future__ import annotations

import collections
import contextlib
import re
import threading
from collections.abc import Iterable
from typing import IO

from endcap.server.stub_reasons import explained, refusals

_KEPT_LINES = 2000
_PROBLEM = re.compile(r"[WEF]\d{4} ")  # severity and date, for example "E1120 13:46:42.870067"
_RECORD = re.compile(r'E\d{4} \S+ \d+ \S+\] "?(.*?)"?$')
_PROTOBUF = re.compile(r"\[libprotobuf ERROR [^\]]*\] (.*)$")
_LOAD_FAILED = re.compile(r"failed to load (?:model )?'([^']+)'(?: version \d+)?: (.*)", re.DOTALL)
# What terminals obey: control characters but tabs and ends of lines; in UTF-8 some have two bytes.
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_SIGNAL = re.compile(r"Signal \(\d+\) received")
_PYTHON_PLACE = re.compile(r"\n+At:\n\s*([^\n]+).*", re.DOTALL)


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
        """copy gets every line; echo gets warnings and errors after `echo_from_now_on`, printable.

        Args:
            echo_all: Echo gets every line, from the first one on; printable, too.
            renamed: A path as the server prints it, and what all get to read in its place.
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
        """End the silence of `echo`: what a start prints is told by `failure_reasons`."""
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


def failure_reasons(lines: Iterable[str]) -> list[str]:
    """Return the reasons for a failure that `lines` tell, the most telling kind only.

    These are, best first: models that failed to load, that their stub refused, and configurations
    that could not be read; ensembles whose parts are missing; the server's closing error; and a
    signal that it caught.
    """
    lines = list(lines)
    refused = refusals(lines)
    loads: list[str] = []
    polls: list[str] = []
    ensembles: list[str] = []
    closing: list[str] = []
    parse_error = ""
    signals: list[str] = []
    for line in lines:
        protobuf = _PROTOBUF.match(line)
        if protobuf:
            parse_error = protobuf.group(1)
            continue
        if line.startswith("error: "):
            closing.append(line.removeprefix("error: "))
        elif _SIGNAL.match(line):
            signals.append(line.strip())
        record = _RECORD.match(line)
        message = record.group(1).replace("\\n", "\n") if record else ""
        failed = _LOAD_FAILED.match(message)
        if failed:
            if failed.group(1) not in refused:  # its stub says it better
                loads.append(f"model '{failed.group(1)}': {explained(_one_line(failed.group(2)))}")
        elif message.startswith("Poll failed"):
            polls.append(_one_line(f"{message} {parse_error}"))
            parse_error = ""
        elif message.startswith("failed to start"):
            closing.append(_one_line(message))
        elif message.startswith(("Invalid argument: ensemble", "Invalid argument: in ensemble")):
            ensembles.append(_one_line(message))
    loads += [f"model '{name}': {message}" for name, message in refused.items()]
    return loads + polls or ensembles or closing or signals


def _one_line(message: str) -> str:
    """Join the lines of a message; of a Python traceback it keeps the innermost place."""
    message = _PYTHON_PLACE.sub(r" (at \1)", message)
    return " ".join(message.split())
