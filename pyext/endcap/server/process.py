"""One server process in a separate process group, and its output.

It is stopped with this process. After SIGKILL of this process the kernel stops it only where
`setpriv` is installed and the main thread started it.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

SHARED_MEMORY = Path("/dev/shm")
# Begins the lines that a stub of `endcap stub install` prints when it refuses to start a model.
REFUSAL = "endcap stub: "

_POLL_INTERVAL_S = 0.02
_LOG_CLOSES_WITHIN_S = 2.0
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


class ServerProcess:
    """Starts a command and ends it, together with every process that it started.

    Where `setpriv` is installed and the main thread makes the object, the command gets SIGTERM from
    the kernel when this process ends without stopping it, as after SIGKILL. A thread reads its
    output, standard error included.

    Args:
        log_file: Gets every line.
        terminal: Gets warnings and errors after `show_problems`, control characters escaped.
        show_all: Whether `terminal` gets every line, from the first one on.
        renamed: A path as the server prints it, and what stands in its place everywhere.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        working_directory: Path,
        *,
        log_file: IO[bytes] | None = None,
        terminal: IO[bytes] | None = None,
        show_all: bool = False,
        renamed: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [*_die_with_parent(), *command],
            env=dict(environment),
            cwd=working_directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,  # what models write may hold tensors
        )
        self._log_file = log_file
        self._terminal = terminal
        self._show_all = show_all
        self._shows_problems = False
        self._renamed = renamed
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._reader = threading.Thread(target=self._read, name="tritonserver log", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id, which is also the process group's."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, minus the signal that ended it, or None while it runs.

        A process that has ended keeps its id until `stop`, so that no other one gets it before.
        """
        if self._process.returncode is None:
            with contextlib.suppress(ChildProcessError):  # waited for elsewhere, or a fork of ours
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return None
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._process.wait(0)

    def log_lines(self) -> list[str]:
        """Return the last lines of the output, at most 2000."""
        return list(self._lines)

    def show_problems(self) -> None:
        """Write to the terminal from now on; a failed start has its log in its error."""
        self._shows_problems = True

    def describe_end(self) -> str:
        """Return "exit code 1" or "signal SIGSEGV" for a process that has ended."""
        code = self.exit_code() or 0
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
        return f"signal {name} ({_BUS_ERROR})" if name == "SIGBUS" else f"signal {name}"

    def summarise_log(self) -> str:
        """Return the last lines of the log in one line; errors alone where there are any."""
        code = self.exit_code()
        if code is not None:
            self._reader.join(_LOG_CLOSES_WITHIN_S)
        lines = self.log_lines()
        is_killed = code is not None and code < 0  # then its errors may be hours old
        errors = [] if is_killed else [line for line in lines if _ERROR.match(line)]
        shown = [_shorten(line) for line in (errors or lines) if line.strip()]
        return "; ".join([*dict.fromkeys(shown)][-_SHOWN_LINES:]) or "its log is empty"

    def stop(self, timeout_s: float) -> None:
        """End the process, after `timeout_s` seconds by SIGKILL, and what it has started.

        Does nothing once the process has been waited for, or in a fork of the one that started it.
        """
        deadline = time.monotonic() + timeout_s
        try:
            if self.exit_code() is None:
                os.kill(self.pid, signal.SIGTERM)
            while self.exit_code() is None and time.monotonic() < deadline:
                time.sleep(_POLL_INTERVAL_S)
        finally:
            # What is left of the group: a server that does not end, stubs of one that crashed.
            self.exit_code()
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_LOG_CLOSES_WITHIN_S)

    def _read(self) -> None:
        assert self._process.stdout is not None  # PIPE above
        with self._process.stdout as output:
            for printed in output:
                raw = printed.replace(*self._renamed) if self._renamed else printed
                line = raw.decode("utf-8", errors="replace").rstrip("\n")
                self._lines.append(line)
                _write(self._log_file, raw)
                if self._show_all or (self._shows_problems and _PROBLEM.match(line)):
                    _write(self._terminal, _CONTROL.sub(_escape, raw))


def remove_shared_memory(prefix: str) -> None:
    """Remove this user's regions in /dev/shm that the Python backend of a killed server left."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # it has just gone
            if region.lstat().st_uid == os.geteuid():
                region.unlink()


def _die_with_parent() -> list[str]:
    """Return the command prefix that ties a process's life to ours, where it can be had."""
    # The kernel's signal comes when the *thread* ends that started the process, so a worker thread
    # must not ask for it.
    program = shutil.which("setpriv")
    if program is None or threading.current_thread() is not threading.main_thread():
        return []
    return [os.path.abspath(program), "--pdeathsig", "TERM", "--"]


def _escape(match: re.Match[bytes]) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in match.group())


def _write(target: IO[bytes] | None, raw: bytes) -> None:
    # A full disk or a closed terminal must not end the reading: the server would block on its pipe.
    if target is not None:
        with contextlib.suppress(OSError, ValueError):
            target.write(raw)
            target.flush()


def _shorten(line: str) -> str:
    """Return a line's message without severity, time and all but the innermost place."""
    record = _RECORD.match(line)
    message = record[1].replace("\\n", "\n") if record else line
    return " ".join(_PYTHON_PLACE.sub(r" (at \1)", message).split())
