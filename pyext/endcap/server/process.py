"""One server process in a separate process group.

It is stopped with this process. After SIGKILL of this process the kernel stops it only where
`setpriv` is installed and the main thread started it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

SHARED_MEMORY = Path("/dev/shm")

_LOOK_EVERY_S = 0.02


class ServerProcess:
    """Starts a command and ends it, together with every process that it started.

    Where `setpriv` is installed and the main thread makes the object, the command gets SIGTERM from
    the kernel when this process ends without stopping it, as after SIGKILL. Its output comes
    through `output`, standard error included.
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
            umask=0o077,  # what models write may hold tensors
        )
        assert self._process.stdout is not None  # PIPE above
        self.output: IO[bytes] = self._process.stdout  # it blocks when nobody reads

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

    def stop(self, timeout_s: float) -> None:
        """End the process, after `timeout_s` seconds by SIGKILL, and what it has started.

        Does nothing once the process has been waited for, or in a fork of the one that started it.
        """
        deadline = time.monotonic() + timeout_s
        try:
            if self.exit_code() is None:
                os.kill(self.pid, signal.SIGTERM)
            while self.exit_code() is None and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
        finally:
            # What is left of the group: a server that does not end, stubs of one that crashed.
            self.exit_code()
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


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
