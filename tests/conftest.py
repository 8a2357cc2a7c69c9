"""A test that hangs beyond its timeout ends its process, so that nobody waits for it."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("end_process_after", "seconds for a test with its clean-up", default="400")


STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # before the output of tests is caught


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """pytest-timeout ends a test once; where its fixtures then hang, nothing would end them.

    With pytest-xdist the run ends then (--max-worker-restart 0): it would begin the file anew.
    """
    seconds = float(item.config.getini("end_process_after"))
    watch = threading.Timer(seconds, _end, (item, seconds))
    watch.daemon = True
    watch.start()
    try:
        return (yield)
    finally:
        watch.cancel()


def _end(item: pytest.Item, seconds: float) -> None:
    stderr = item.config.stash[STDERR]
    os.write(stderr, f"\n{item.nodeid} has not ended after {seconds:g} s\n".encode())
    faulthandler.dump_traceback(stderr, all_threads=True)
    os._exit(1)
