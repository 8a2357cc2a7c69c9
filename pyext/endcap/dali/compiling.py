"""Compiles a folder of sources to a library, some files at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from endcap.dali.compiler import first_error
from endcap.dali.copying import replace_file
from endcap.dali.errors import DaliError

_POLL_S = 0.05


class _Command:
    """One running compiler; what it writes goes into a file."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.words = words
        self.log = log
        with log.open("wb") as stream:
            self.process = _start(words, stream, log.parent)

    def succeeded(self, kept_log: Path) -> bool:
        """Whether it has ended well, False while it runs; raise DaliError where it failed."""
        code = self.process.poll()
        if code:
            output = self.log.read_text(errors="replace")
            if not output.strip():
                raise DaliError(_silent(self.words[0], code, self.log.parent))
            replace_file(self.log, kept_log, mode=0o644)
            reason = first_error(output)
            raise DaliError(
                f"the DALI operators do not compile: {reason}; {kept_log} has all of it, and "
                "--compiler names another compiler"
            )
        return code is not None

    def stop(self) -> None:
        """End it, where it still runs, with what it has started: g++ is only a driver."""
        if self.process.returncode is None:  # not waited for, so that the group is still its own
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run_all(
    commands: Sequence[tuple[Sequence[str], Path]],
    *,
    jobs: int,
    kept_log: Path,
    done: Callable[[], None],
) -> None:
    """Run commands, `jobs` at once; each goes with the file that its output is written to.

    Args:
        done: Is called after each. The first one that fails leaves its output at `kept_log`, ends
            the others and raises DaliError; any other exception ends them, too.
    """
    waiting = list(reversed(commands))
    running: list[_Command] = []
    # Signals raise in the main thread alone: what another one starts is always in `running`.
    with _all_ended(running), ThreadPoolExecutor(1) as starter:
        while waiting or running:
            while waiting and len(running) < jobs:
                starter.submit(lambda: running.append(_Command(*waiting.pop()))).result()
            for command in [each for each in running if each.succeeded(kept_log)]:
                running.remove(command)
                done()
            time.sleep(_POLL_S if running else 0)


@contextlib.contextmanager
def _all_ended(running: list[_Command]) -> Iterator[None]:
    try:
        yield
    finally:
        for command in running:
            command.stop()


def _silent(compiler: str, code: int, folder: Path) -> str:
    """What to say of a compiler that failed without a word."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return (
        f"the compiler {compiler} {how} and without a word: perhaps the disk of {folder} is full "
        "(TMPDIR names another one), or the memory"
    )


def _start(words: Sequence[str], output: IO[bytes], temporary: Path) -> subprocess.Popen[bytes]:
    """Start a compiler as the leader of a process group, with a folder for temporary files."""
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    except OSError as error:
        raise DaliError(
            f"the compiler {words[0]} cannot be run ({error.strerror}); name another one with "
            "--compiler"
        ) from error
