"""Deadlines, and retries of requests to an unavailable server: exponential back-off with jitter.

Method: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from endcap.client.errors import RequestError, timed_out

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 5.0


class Deadline:
    """The deadline of an image, for all its requests and waits.

    It is `timeout_s` seconds from now, less `spent_s`.
    """

    def __init__(self, timeout_s: float, spent_s: float = 0.0) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s - spent_s

    def left_s(self) -> float:
        """Return the remaining seconds; raise RequestError ("timeout") after the deadline."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise timed_out(self._timeout_s)
        return left_s


class Attempts:
    """The attempts of one request within its deadline.

    Args:
        retries: The number of attempts after the first.
        timeout_s: For all of them, from now.
        shares_memory: Whether the request reads or writes shared memory. It is then retried only
            where the server refused it: after a lost connection it may still be running, and write
            there later.
        clock: A monotonic clock, in seconds.
        draw: A function that returns a random number between two numbers.
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
        """Return the seconds that remain for the next attempt, at least 0."""
        return max(0.0, self._deadline - self._clock())

    def allows_retry(self, error: RequestError) -> bool:
        """Whether this kind of error allows another attempt."""
        return error.transient and (error.refused or not self._shares_memory)

    def wait_after(self, error: RequestError) -> float:
        """Return how many seconds to wait before the next attempt, not less than the server asks.

        Raises `error` where there is none: its kind rules it out, the retries are used up, or the
        wait would exceed the deadline.
        """
        if not self.allows_retry(error) or self._left <= 0:
            raise error
        wait_s = (error.retry_after_s or 0.0) + self._draw(0.0, self._longest_wait_s)
        if wait_s >= self.remaining_s():
            raise error
        self._left -= 1
        self._longest_wait_s = min(2 * self._longest_wait_s, LONGEST_WAIT_S)
        return wait_s


class RetryPolicy:
    """The number of retries of requests over one connection.

    Args:
        retries: The number while the server responds. After a request all of whose attempts failed,
            the others get one attempt each, until one of them has a response: of a folder of
            images only the first ones wait for a server that does not come back.
    """

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._is_over = False

    def retries(self) -> int:
        """Return the number of attempts after a request's first one."""
        return 0 if self._is_over else self._retries

    def end(self, error: RequestError | None) -> None:
        """Record the error with which a request ended, None for a response."""
        # A server that says when to come back has responded.
        self._is_over = error is not None and error.transient and error.retry_after_s is None

    def wait_after(self, error: RequestError, attempts: Attempts, *, repeatable: bool) -> float:
        """Return the wait by `Attempts.wait_after`; where that raises, record the error."""
        try:
            return attempts.wait_after(error)
        except RequestError:
            if not error.transient or (repeatable and attempts.allows_retry(error)):
                self.end(error)
            raise
