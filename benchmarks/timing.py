"""Alternating measurements of several implementations, on chosen CPUs, and their result rows."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeVar


@contextmanager
def one_cpu() -> Iterator[int]:
    """Pin the calling thread, and threads that it starts meanwhile, to one CPU; give its number.

    It is the last one that the process may use: the first often serves the interrupts.
    """
    allowed = os.sched_getaffinity(0)
    chosen = max(allowed)
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def cpus(count: int) -> Iterator[None]:
    """Pin the calling thread, and threads that it starts meanwhile, to the last `count` CPUs.

    Raises:
        ValueError: The process may not use that many.
    """
    allowed = os.sched_getaffinity(0)
    if count > len(allowed):
        raise ValueError(f"{count} CPUs of {len(allowed)}")
    os.sched_setaffinity(0, sorted(allowed)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def cpu_count() -> int:
    """CPUs that the process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Case:
    """One way of doing the thing that is timed.

    Attributes:
        run: The work that counts.
        prepare: Makes the argument of `run` afresh before each call, outside the measured time.
    """

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one case over the rounds of one run."""

    median_ms: float
    low_ms: float  # a quarter of the rounds was faster
    high_ms: float  # a quarter of the rounds was slower
    rounds: int


@dataclass(frozen=True)
class Budget:
    """How long to measure: whole rounds for about `seconds`, within the two limits."""

    seconds: float
    fewest: int = 5
    most: int = 2000

    def rounds(self, one_round_seconds: float) -> int:
        """Round that fit, when one takes so long."""
        fitting = math.floor(self.seconds / max(one_round_seconds, 1e-9))
        return min(max(fitting, self.fewest), self.most)


def measure(cases: Mapping[str, Case], budget: Budget) -> dict[str, Timing]:
    """Time every case once a round; each round starts with another case.

    The first round only warms up, and tells how many rounds fit into the budget.
    """
    names = list(cases)
    warm_up = _one_round(cases, names)
    rounds = budget.rounds(sum(warm_up.values()))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with _no_garbage_collection():
        for index in range(rounds):
            start = index % len(names) if names else 0
            for name, elapsed in _one_round(cases, names[start:] + names[:start]).items():
                seconds[name].append(elapsed)
    return {name: summary(values) for name, values in seconds.items()}


def summary(seconds: Sequence[float]) -> Timing:
    """Median and quartiles of some durations."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return Timing(
        median_ms=1e3 * median(ordered),
        low_ms=1e3 * ordered[round(last * 0.25)],
        high_ms=1e3 * ordered[round(last * 0.75)],
        rounds=len(ordered),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the mean of ratios: twice as fast here and half as fast there makes 1."""
    if not ratios:
        raise ValueError("the geometric mean of no ratios")
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _one_round(cases: Mapping[str, Case], order: Sequence[str]) -> dict[str, float]:
    elapsed = {}
    for name in order:
        argument = cases[name].prepare()
        begin = time.perf_counter()
        cases[name].run(argument)
        elapsed[name] = time.perf_counter() - begin
    return elapsed


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Outcome = Literal[
    "timed", "not installed", "not verified", "not applicable", "not available", "not measured"
]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One entry.

    Attributes:
        note: How the result was verified, or why there is no time.
        ratio: Its time as a multiple of the baseline's; None for a row without a time.
    """

    outcome: Outcome
    note: str
    timing: Timing | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Ready:
    """A entry that was verified and can be timed."""

    case: Case
    note: str


def load(make: Callable[[], T]) -> T | Row:
    """Return what `make` makes, or the row of a library that is not there."""
    try:
        return make()
    except ModuleNotFoundError as error:
        return Row("not installed", str(error))
    except (ImportError, OSError) as error:
        # A wheel that lacks a shared library, or one built for another machine.
        return Row("not available", f"{type(error).__name__}: {error}")


def comparison(entries: Mapping[str, Ready | Row], baseline: str, budget: Budget) -> dict[str, Row]:
    """Time the ready ones alternately; ratios are to the one named `baseline`."""
    ready = {name: each for name, each in entries.items() if isinstance(each, Ready)}
    timings = measure({name: each.case for name, each in ready.items()}, budget)
    base = timings.get(baseline)
    rows: dict[str, Row] = {}
    for name, each in entries.items():
        if isinstance(each, Row):
            rows[name] = each
            continue
        timing = timings[name]
        ratio = timing.median_ms / base.median_ms if base else None
        rows[name] = Row("timed", each.note, timing, ratio)
    return rows
