"""Alternating measurements of several implementations of the same work."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Figure(NamedTuple):
    """A measured value: the median over the rounds, and the quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Case:
    """A peer whose result was verified.

    Attributes:
        run: The work that is timed.
        note: How its result compares with endcap's.
        prepare: Makes the argument of `run` before each call, outside the measured time; None for
            a function without one.
    """

    run: Callable[..., object]
    note: str = ""
    prepare: Callable[[], Any] | None = None


# A peer that can be timed, or the reason why it cannot.
Entry = Case | str


@dataclass(frozen=True)
class Budget:
    """How long to measure: whole rounds for about `seconds`, within the two limits."""

    seconds: float
    min_rounds: int = 5
    max_rounds: int = 2000

    def rounds(self, one_round_s: float) -> int:
        """Return the number of rounds."""
        fitting = math.floor(self.seconds / max(one_round_s, 1e-9))
        return min(max(fitting, self.min_rounds), self.max_rounds)


def measure(entries: Mapping[str, Entry], budget: Budget) -> dict[str, Figure | None]:
    """Time every case once a round, in milliseconds; None for an entry that is not a case.

    Each round starts with another case. The first one warms up and determines their number.
    """
    cases = {name: each for name, each in entries.items() if isinstance(each, Case)}
    names = list(cases)
    rounds = budget.rounds(sum(_run_round(cases, names).values()))
    times: dict[str, list[float]] = {name: [] for name in names}
    with _without_garbage_collection():
        for index in range(rounds):
            start = index % len(names) if names else 0
            for name, elapsed in _run_round(cases, names[start:] + names[:start]).items():
                times[name].append(1e3 * elapsed)
    return {name: summarize(times[name]) if name in cases else None for name in entries}


def summarize(values: Sequence[float]) -> Figure:
    """Return median and quartiles."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return Figure(median(ordered), ordered[round(last * 0.25)], ordered[round(last * 0.75)])


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the mean of ratios: twice as fast here and half as fast there makes 1."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def load(make: Callable[[], T]) -> T | str:
    """Return what `make` returns, or why its library cannot be used."""
    try:
        return make()
    except ModuleNotFoundError as error:
        return f"not installed: {error}"
    except (ImportError, OSError) as error:
        # A wheel that lacks a shared library, or one built for another machine.
        return f"not available: {type(error).__name__}: {error}"


def cpu_count() -> int:
    """Return the number of CPUs that the process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def one_cpu() -> Iterator[None]:
    """Pin the calling thread, and threads that it starts meanwhile, to one CPU.

    It is the last one that the process may use: the first often serves the interrupts.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _run_round(cases: Mapping[str, Case], order: Sequence[str]) -> dict[str, float]:
    elapsed = {}
    for name in order:
        case = cases[name]
        arguments = (case.prepare(),) if case.prepare else ()
        begin = time.perf_counter()
        case.run(*arguments)
        elapsed[name] = time.perf_counter() - begin
    return elapsed


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
