"""Rows of the results: every entry has one, also where there is nothing to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from benchmarks.timing import Budget, Case, Timing, measure

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
    """What `make` makes, or the row of a library that is not there."""
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
