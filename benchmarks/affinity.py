"""Keeps a measurement on one CPU, or on some."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
