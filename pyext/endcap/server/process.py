"""One server process in a process group of its own, which ends with us whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO


class ServerProcess:
    """Starts a command and ends it, together with every process that it started.

    The command gets SIGTERM from the kernel when the thread that made it dies with this process, as
    after SIGKILL. Its output comes through `output`, standard error included.
    """

    def __init__(
        self, command: list[str], environment: Mapping[str, str], working_directory: Path
    ) -> None:
        self._process = subprocess.Popen(
            [*_die_with_parent(), *command],
            env=dict(environment),
            cwd=working_directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also the process group's."""
        return self._process.pid

    @property
    def output(self) -> IO[bytes]:
        """What the process prints; it blocks when nobody reads."""
        assert self._process.stdout is not None  # PIPE above
        return self._process.stdout

    def exit_code(self) -> int | None:
        """Returns the exit code, minus the signal that ended it, or None while it runs."""
        return self._process.poll()

    def stop(self, timeout_s: float) -> bool:
        """Ends the process; returns False when it had to be killed after `timeout_s` seconds."""
        in_time = True
        try:
            self._process.terminate()
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            in_time = False
        finally:
            # What is left of the group: a server that does not end, stubs of one that crashed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return in_time


def _die_with_parent() -> list[str]:
    """Returns the command prefix that ties a process's life to ours, where it can be had."""
    # The kernel's signal comes when the *thread* ends that started the process, so a worker thread
    # must not ask for it.
    program = shutil.which("setpriv")
    if program is None or threading.current_thread() is not threading.main_thread():
        return []
    return [os.path.abspath(program), "--pdeathsig", "TERM", "--"]
