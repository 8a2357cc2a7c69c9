"""Calls for the items of an iterable, several at a time, with their results in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_END: Any = object()


def submit_in_order(
    submit: Callable[[T], Future[R]], items: Iterable[T], *, ahead: int
) -> Generator[tuple[T, R], None, None]:
    """Yield each item with its result, as soon as there is one, in the order of the items.

    A thread reads the items. Their error is raised after the results of the items before, that of a
    call in the place of its result.

    Args:
        submit: Begins a call.
        items: The items.
        ahead: The most items that are read and whose results have not been taken.
    """
    entries: queue.SimpleQueue[tuple[T, Future[R]] | Exception | None] = queue.SimpleQueue()
    permits = threading.Semaphore(ahead)
    stopped = threading.Event()

    def read() -> None:
        try:
            iterator = iter(items)
            while permits.acquire() and not stopped.is_set():
                item = next(iterator, _END)
                if item is _END:
                    break
                entries.put((item, submit(item)))
                del item  # not to be kept alive until the next one
            entries.put(None)
        except Exception as error:
            entries.put(error)

    threading.Thread(target=read, name="endcap video frames", daemon=True).start()
    try:
        while (entry := entries.get()) is not None:
            if isinstance(entry, Exception):
                raise entry
            item, future = entry
            del entry
            result = future.result()
            permits.release()
            yield item, result
            del item, future, result
    finally:
        stopped.set()
        permits.release()
