"""What all tests share: the end of one that hangs, and which files run one after the other."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

# Files that start Ray. A cluster takes both cores while it starts; of three at once one gives up.
RAY_FOLDER = "tests/python/batch/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("end_process_after", "seconds for a test with its clean-up", default="400")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the files that start Ray in one process, as `--dist loadfile` does a file's tests."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return RAY_FOLDER if file.startswith(RAY_FOLDER) else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
