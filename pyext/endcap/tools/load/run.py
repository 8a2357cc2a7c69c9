"""A load test, level by level."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from endcap.client import AsyncDetectionClient, ClientArguments, ClientError, DetectionClient
from endcap.client.address import Address, parse_address
from endcap.terminal.console import count
from endcap.terminal.progress import stage_bar
from endcap.tools.load.level import Level
from endcap.tools.load.measurement import TICK_S, Measurement, Timing
from endcap.tools.load.senders import Senders, TaskSenders, ThreadSenders, Turns
from endcap.tools.load.server_times import ServerClock


class LoadTest:
    """A server, what to ask it and how, and for how long.

    Args:
        arguments: Of the client, but for its concurrency.
        images: Encoded files.
    """

    def __init__(
        self,
        arguments: ClientArguments,
        images: Sequence[bytes],
        timing: Timing,
        *,
        use_asyncio: bool,
    ) -> None:
        self._address: Address = parse_address(arguments.url, arguments.protocol)
        self._arguments = arguments
        self._images = images
        self._timing = timing
        self._use_asyncio = use_asyncio
        self._clock_problem: str | None = None

    def run(self, levels: Sequence[int]) -> list[Level]:
        """Return the levels that were measured: all, unless a signal came in between.

        Raises:
            ClientError: The server cannot be asked.
        """
        measured: list[Level] = []
        steps = round((self._timing.warmup_s + self._timing.duration_s) / TICK_S)
        with self._clock() as clock, stage_bar() as begin:
            for concurrency in levels:
                advance = begin(f"{concurrency} in flight", steps)
                level = self._measure(concurrency, clock, advance)
                measured += [level] if level else []
                if level is None or level.interrupted:
                    break
        return measured

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {
            "url": str(self._address),
            "protocol": self._address.protocol,
            "model": self._arguments.model,
            "batch": self._arguments.batch,
            "shared_memory": self._arguments.shared_memory,
            "region_bytes": self._arguments.region_bytes,
            "async": self._use_asyncio,
            "images": len(self._images),
            "warmup_s": self._timing.warmup_s,
            "duration_s": self._timing.duration_s,
        }

    def heading(self) -> str:
        """Return what was measured, for people."""
        asked = self._arguments
        parts = [f"{asked.model} at {self._address}", count(len(self._images), "image")]
        parts += [f"batch {asked.batch}"] if asked.batch > 1 else []
        if asked.shared_memory != "none":
            parts.append(f"{asked.shared_memory} shared memory")
        parts += ["asyncio"] if self._use_asyncio else []
        parts.append(f"{self._timing.duration_s:g} s for each level")
        return ", ".join(parts)

    def _measure(
        self, concurrency: int, clock: ServerClock | None, advance: Callable[[], None]
    ) -> Level | None:
        turns = Turns(self._images, self._arguments.batch)
        arguments = replace(self._arguments, concurrency=concurrency)
        if self._use_asyncio:
            tasks = TaskSenders(
                lambda: AsyncDetectionClient.from_arguments(arguments), turns, concurrency
            )
            return self._watch(tasks, clock).run(concurrency, advance)
        with DetectionClient.from_arguments(arguments) as client:
            threads = ThreadSenders(client, turns, concurrency)
            return self._watch(threads, clock).run(concurrency, advance)

    def _watch(self, senders: Senders, clock: ServerClock | None) -> Measurement:
        return Measurement(senders, clock, self._timing, self._clock_problem)

    @contextlib.contextmanager
    def _clock(self) -> Iterator[ServerClock | None]:
        """Give what reads the server's statistics, None where it gives none."""
        try:
            clock = ServerClock(
                self._address,
                self._arguments.model,
                options=self._arguments.options,
                settled=False,
            )
        except ClientError as error:
            self._clock_problem = str(error)
            yield None
            return
        try:
            yield clock
        finally:
            clock.close()
