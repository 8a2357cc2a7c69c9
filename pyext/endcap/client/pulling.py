"""A thread that takes from a caller's iterable, so that nobody else waits while it waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# How long an iterator that is being asked may take to notice that nobody wants more, seconds. One
# that waits for a camera is left to its thread, which ends with the program.
_PARTING_S = 0.1
_NOTHING: Any = object()


@dataclass(frozen=True)
class Pulled(Generic[T]):
    """What was taken."""

    item: T


@dataclass(frozen=True)
class Exhausted:
    """There is no more. error: what the iterator raised."""

    error: BaseException | None = None


class Puller(Generic[T]):
    """Takes items, each when it is asked for.

    put: is called in a thread of its own with each item, and with `Exhausted` at the end.
    """

    def __init__(self, items: Iterator[T], put: Callable[[Pulled[T] | Exhausted], None]) -> None:
        self._items = items
        self._put = put
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="endcap images", daemon=True)
        self._thread.start()

    def ask(self, number: int = 1) -> None:
        """Has so many more items taken."""
        for _ in range(number):
            self._wanted.release()

    def stop(self) -> None:
        """Has no more items taken."""
        self._stopped = True
        self._wanted.release()
        self._thread.join(_PARTING_S)

    def _run(self) -> None:
        try:
            while True:
                self._wanted.acquire()
                if self._stopped:
                    return
                item = next(self._items, _NOTHING)
                if item is _NOTHING:
                    self._put(Exhausted())
                    return
                self._put(Pulled(item))
                del item  # while it waits, only its taker has it
        except BaseException as error:
            self._put(Exhausted(error))
        finally:
            del self._items  # a generator ends now, in the thread that ran it
