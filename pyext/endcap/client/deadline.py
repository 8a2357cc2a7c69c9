"""The time that is left for an image, over all requests that it takes and all that it waits for."""

from __future__ import annotations

import time

from endcap.client.wire.translate import no_answer


class Deadline:
    """Ends in `timeout_s` seconds, less those that are spent already."""

    def __init__(self, timeout_s: float, spent_s: float = 0.0) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s - spent_s

    def left_s(self) -> float:
        """Returns what is left, above 0. Raises RequestError, "timeout", where nothing is."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise no_answer(self._timeout_s)
        return left_s
