"""Watches one level of a load test: a warm-up, and a window that counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from endcap.client import ClientError
from endcap.terminal.failure import StopRequested
from endcap.tools.load.level import Level, ServerPart
from endcap.tools.load.senders import Senders
from endcap.tools.load.server_times import ServerClock
from endcap.tools.load.window import figures

TICK_S = 0.1


@dataclass(frozen=True)
class Timing:
    """Seconds before the window, and of the window."""

    warmup_s: float
    duration_s: float


class _Window(NamedTuple):
    begin_s: float
    end_s: float
    cpu_s: float
    server: ServerPart | None
    interrupted: bool


class Measurement:
    """Watches senders at work until their window is over.

    Args:
        clock: None where the server gives no statistics, `problem` is why.
    """

    def __init__(
        self,
        senders: Senders,
        clock: ServerClock | None,
        timing: Timing,
        problem: str | None = None,
    ) -> None:
        self._senders = senders
        self._clock = clock
        self._timing = timing
        self._problem = problem

    def run(self, concurrency: int, advance: Callable[[], None]) -> Level | None:
        """Return what the window showed; a signal cuts it short, None where it had not begun.

        Args:
            advance: Is called each TICK_S.
        """
        try:
            window = self._watch(advance)
        finally:
            self._senders.stop()
        if window is None:
            return None
        shown = figures(self._senders.requests, window.begin_s, window.end_s)
        used = window.cpu_s / shown.seconds
        return Level(concurrency, shown, used, window.server, self._problem, window.interrupted)

    def _watch(self, advance: Callable[[], None]) -> _Window | None:
        """Wait until the window is over, or a signal comes."""
        begin_s = cpu_s = 0.0
        try:
            self._wait_until(time.perf_counter() + self._timing.warmup_s, advance)
            self._restart_clock()
            begin_s, cpu_s = time.perf_counter(), time.process_time()
            end_s = begin_s + self._timing.duration_s
            self._wait_until(end_s, advance)
            interrupted = False
        except StopRequested:
            if not begin_s:
                return None
            end_s, interrupted = time.perf_counter(), True
        cpu_s = time.process_time() - cpu_s
        return _Window(begin_s, end_s, cpu_s, self._server_part(), interrupted)

    def _wait_until(self, end_s: float, advance: Callable[[], None]) -> None:
        while (left := end_s - time.perf_counter()) > 0:
            time.sleep(min(left, TICK_S))
            advance()
            self._senders.check()

    def _restart_clock(self) -> None:
        if self._clock is not None:
            try:
                self._clock.restart()
            except ClientError as error:
                self._problem = str(error)

    def _server_part(self) -> ServerPart | None:
        if self._clock is None or self._problem is not None:
            return None
        try:
            asked = self._clock.asked()
        except ClientError as error:
            self._problem = str(error)
            return None
        if not asked:
            self._problem = "the server counted no request"
            return None
        whole = next((each for each in asked if each.model == self._clock.model), None)
        return ServerPart(whole, [each for each in asked if each is not whole])
