"""Steps of a long build: elapsed times, and commands whose progress is printed."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_NINJA = re.compile(r"\[(\d+)/(\d+)\] ")
_SECONDS_BETWEEN_REPORTS = 15.0
# A file of GPU code, or a download, can take minutes in which the command prints nothing.
_LONGEST_SILENCE_S = 60.0


class BuildError(Exception):
    """Something cannot be built; the message says why."""


class Steps:
    """Prints each step of a build with the seconds since the start.

    Attributes:
        seconds: Duration of each finished step, by name.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the elapsed time in front."""
        print(f"[{time.monotonic() - self._start:4.0f} s] {text}", flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce a step and records how long its body takes."""
        self.say(f"{name} ...")
        start = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start

    def run(
        self,
        *command: str | Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> str:
        """Run a command; print from time to time that it runs, and of ninja how far it is.

        Args:
            command: Program and arguments.
            environment: Variables of the process, by default those of this one.
            folder: Working directory.

        Returns:
            What the command printed, stdout and stderr together.

        Raises:
            BuildError: The command cannot be started or fails; the message holds its output.
        """
        written = " ".join(map(str, command))
        lines: list[str] = []
        try:
            process = subprocess.Popen(
                [*map(str, command)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**(os.environ if environment is None else environment)},
                cwd=folder,
            )
        except OSError as error:
            raise BuildError(f"{written} cannot be started: {error}") from None
        with process, _Progress(self.say) as progress:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                progress.read(line)
        output = "".join(lines)
        if process.returncode != 0:
            raise BuildError(f"{output}\n{written} failed with exit status {process.returncode}")
        return output


class _Progress:
    """Reports on a command while it runs; a thread does so where the command is silent."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._compiled = ""
        self._reported = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Progress:
        self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watcher.join()

    def read(self, line: str) -> None:
        """Take a line that the command printed."""
        done = _NINJA.search(line)
        if done:
            with self._lock:
                self._compiled = f"{done[1]} of {done[2]} files compiled"
                self._report_after(_SECONDS_BETWEEN_REPORTS)

    def _report_after(self, seconds: float) -> None:
        if time.monotonic() - self._reported >= seconds:
            self._reported = time.monotonic()
            self._say(f"  {self._compiled or 'running'}")

    def _watch(self) -> None:
        while not self._ended.wait(_LONGEST_SILENCE_S / 4):
            with self._lock:
                self._report_after(_LONGEST_SILENCE_S)
