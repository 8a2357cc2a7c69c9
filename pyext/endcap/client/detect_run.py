"""One run of `DetectionClient.detect`: what is in flight, and what has come of it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from endcap.client.batches import Batch
from endcap.client.pulling import Exhausted, Pulled, Puller
from endcap.results.image_result import ImageResult, Results
from endcap.results.task import Task

Answered = Future[list[ImageResult]]


@dataclass(frozen=True)
class _Finished:
    """A batch that was answered, from its first image's position on."""

    start: int
    future: Answered


class DetectRun:
    """Asks for batches and hands out results as they come, both at once.

    start: has a batch sent by another thread; None where the client was closed.
    task: the model's. on_result: is called for each image, in the thread that calls `results`.
    """

    def __init__(
        self,
        start: Callable[[Batch], Answered | None],
        task: Task,
        on_result: Callable[[ImageResult], None] | None,
    ) -> None:
        self._start = start
        self._task = task
        self._on_result = on_result
        self._events: queue.SimpleQueue[Pulled[Batch] | Exhausted | _Finished] = queue.SimpleQueue()
        self._in_flight: set[Answered] = set()
        self._answered: dict[int, list[ImageResult]] = {}

    def results(self, batches: Iterator[Batch], *, most: int, counted: bool) -> Results:
        """Returns the results of all batches, at most `most` of which are in memory.

        counted: whether the batches are known to end, so that all are taken even when the client
        is closed meanwhile. What was not answered then is "cancelled".
        """
        source = Puller(batches, self._events.put)
        source.ask(most)
        more = True
        try:
            while more or self._in_flight:
                event = self._events.get()
                if isinstance(event, Exhausted):
                    if event.error is not None:
                        raise event.error
                    more = False
                elif isinstance(event, _Finished):
                    source.ask()
                    self._in_flight.discard(event.future)
                    self._take(event.start, event.future.result())
                elif not self._send(event.item):
                    source.ask()
                    more = more and counted
        finally:
            source.stop()
            for future in self._in_flight:
                future.cancel()
        return Results(each for start in sorted(self._answered) for each in self._answered[start])

    def _send(self, batch: Batch) -> bool:
        future = self._start(batch)
        if future is None:
            self._take(batch.start, batch.cancelled(self._task))
            return False
        self._in_flight.add(future)
        future.add_done_callback(lambda done: self._events.put(_Finished(batch.start, done)))
        return True

    def _take(self, start: int, results: list[ImageResult]) -> None:
        self._answered[start] = results
        if self._on_result is not None:
            for result in results:
                self._on_result(result)
