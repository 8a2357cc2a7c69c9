"""Processes with a time limit, a log and no survivors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PASSED, FAILED, CRASHED, TIMED_OUT = "passed", "failed", "crashed", "timed out"
_ABORT_SECONDS = 4.0  # for faulthandler to write the stacks


@dataclass(frozen=True)
class Outcome:
    """How a process ended.

    Attributes:
        state: PASSED (exit status 0), FAILED (another one), CRASHED (by a signal) or TIMED_OUT.
        seconds: from start to end.
        detail: exit status, signal or time limit in words; empty when it passed.
    """

    state: str
    seconds: float
    detail: str = ""


def run_process(
    command: Sequence[str],
    *,
    log: Path,
    limit_s: float,
    environment: Mapping[str, str],
    folder: Path,
) -> Outcome:
    """Run a command in a process group of its own and wait for it.

    After the limit the process gets SIGABRT, at which Python's faulthandler writes the stacks of
    all threads to the log, then the whole group SIGKILL. What is left of the group when the process
    has ended, however it ended, is killed as well.

    Args:
        command: program and arguments.
        log: file that gets stdout and stderr.
        limit_s: seconds until the process is ended.
        environment: all environment variables of the process.
        folder: its working directory.
    """
    start = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            output.write(f"{command[0]} could not be started: {error}\n".encode())
            return Outcome(FAILED, 0.0, f"could not be started: {error}")
        timed_out = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            _abort(process)
        finally:
            # The process may still be there: the wait may have been interrupted.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - start
    if timed_out:
        return Outcome(TIMED_OUT, seconds, f"ended after {limit_s:.0f} s")
    if process.returncode < 0:
        return Outcome(CRASHED, seconds, signal.Signals(-process.returncode).name)
    if process.returncode > 0:
        return Outcome(FAILED, seconds, f"exit status {process.returncode}")
    return Outcome(PASSED, seconds)


def _abort(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_ABORT_SECONDS)


def end_of(log: Path, lines: int = 60) -> str:
    """Return the last lines of a log, at most 12,000 characters; after reports of a sanitizer."""
    if not log.is_file():
        return ""
    text = log.read_text(errors="replace").splitlines()
    reports = [line for line in text[:-lines] if line.startswith("=========")][:40]
    return "\n".join([*reports, *text[-lines:]])[-12_000:]
