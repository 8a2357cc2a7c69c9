"""Deadlines, and retries of requests to an unavailable server: exponential back-off with jitter.

Method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from endcap.client.errors import RequestError, no_answer

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 5.0


class Deadline:
    """The time of an image, over all its requests and all that it waits for.

    It ends in `timeout_s` seconds, less those that are spent already.
    """

    def __init__(self, timeout_s: float, spent_s: float = 0.0) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s - spent_s

    def left_s(self) -> float:
        """Return what is left, above 0. Raises RequestError, "timeout", where nothing is."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise no_answer(self._timeout_s)
        return left_s


class Attempts:
    """The attempts of one request within its deadline.

    Args:
        retries: How many may follow the first.
        timeout_s: For all of them, from now.
        shares_memory: Whether the request reads or writes shared memory. Then another follows only
            one that was refused: one that was lost on its way may still be running, and write there
            later.
        clock: Seconds that never go back.
        draw: A random number between two others.
    """

    def __init__(
        self,
        retries: int,
        timeout_s: float,
        *,
        shares_memory: bool = False,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._left = retries
        self._shares_memory = shares_memory
        self._clock = clock
        self._draw = draw
        self._deadline = clock() + timeout_s
        self._longest_wait_s = FIRST_WAIT_S

    def remaining_s(self) -> float:
        """Return the time that the next attempt has, seconds; 0 where none is left."""
        return max(0.0, self._deadline - self._clock())

    def passes(self, error: RequestError) -> bool:
        """Whether the request may be sent again after this error, as far as the kind of it goes."""
        return error.transient and (error.refused or not self._shares_memory)

    def wait_after(self, error: RequestError) -> float:
        """Return how many seconds to wait before the next attempt.

        Raises `error` where there is to be none: it is not of the kind that passes, too many were
        made, or the deadline would be over.
        """
        if not self.passes(error) or self._left <= 0:
            raise error
        wait_s = self._draw(0.0, self._longest_wait_s)
        if wait_s >= self.remaining_s():
            raise error
        self._left -= 1
        self._longest_wait_s = min(2 * self._longest_wait_s, LONGEST_WAIT_S)
        return wait_s

    def wait_after_lost(self, outcome: object) -> float | None:
        """Return how long to wait before a request is made anew with another region.

        Args:
            outcome: Of the request. None where that is no failure that passes, or no other attempt
                is to follow. The region of an attempt that was lost on its way is given up, so that
                the next one may share memory again.
        """
        if not isinstance(outcome, RequestError) or not outcome.transient:
            return None
        try:
            return self.wait_after(outcome)
        except RequestError:
            return None


class RetryPolicy:
    """How often requests over one connection are sent again.

    Args:
        retries: How often where the server has answered lately. After a request that met no server
            in all of its attempts the others get one attempt each, until one of them is answered:
            of a folder of images only the first ones wait for a server that is gone for good.
    """

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._is_over = False

    def retries(self) -> int:
        """Return how many attempts may follow a request's first one."""
        return 0 if self._is_over else self._retries

    def end(self, error: RequestError | None) -> None:
        """Is told how each request has ended, None for an answer."""
        self._is_over = error is not None and error.transient

    def wait_after(self, error: RequestError, attempts: Attempts, *, repeatable: bool) -> float:
        """As `Attempts.wait_after`; notes the end of the request where that raises."""
        try:
            return attempts.wait_after(error)
        except RequestError:
            if not error.transient or (repeatable and attempts.passes(error)):
                self.end(error)
            raise
