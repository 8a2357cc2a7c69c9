"""The asyncio client at work in a thread of its own, so that signals find the main one waiting."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from endcap.client import AsyncDetectionClient, ClientArguments, ImageResult, Task

T = TypeVar("T")


class LoopClient:
    """What DetectionClient does, done by AsyncDetectionClient with the same arguments.

    An exception that a signal's handler raises inside an event loop would be lost in one of its
    callbacks. Results come to the caller's thread, which may take its time with them.
    """

    def __init__(self, arguments: ClientArguments) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endcap loop")
        self._thread.start()
        try:
            self._client = self._run(_opened(arguments))
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> LoopClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._run(self._client.__aexit__(kind, error, trace))
        finally:
            self._end()

    @property
    def task(self) -> Task:
        """What the model answers with."""
        return self._client.task

    @property
    def labels(self) -> list[str] | None:
        """Class names by id."""
        return self._client.labels

    def detect(
        self, images: Sequence[Path], *, on_result: Callable[[ImageResult], None]
    ) -> Sequence[ImageResult]:
        """Return what became of each image; `on_result` is called in this thread."""
        answered: queue.SimpleQueue[ImageResult | None] = queue.SimpleQueue()
        detected = self._start(self._client.detect(images, on_result=answered.put))
        for result in _taken(answered, detected):
            on_result(result)
        return detected.result()

    def detect_stream(self, images: Sequence[Path]) -> Iterator[ImageResult]:
        """Yield what becomes of each image, in their order."""
        answered: queue.SimpleQueue[ImageResult | None] = queue.SimpleQueue()
        streamed = self._start(_pump(self._client.detect_stream(images), answered))
        yield from _taken(answered, streamed)
        streamed.result()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work of the loop; a signal meanwhile cancels it."""
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _end(self) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _opened(arguments: ClientArguments) -> AsyncDetectionClient:
    return await AsyncDetectionClient.from_arguments(arguments).__aenter__()


async def _pump(
    results: AsyncIterator[ImageResult], answered: queue.SimpleQueue[ImageResult | None]
) -> None:
    async for result in results:
        answered.put(result)


def _taken(
    answered: queue.SimpleQueue[ImageResult | None], work: concurrent.futures.Future[Any]
) -> Iterator[ImageResult]:
    """Yield what is answered until the work is done; the work is cancelled where nobody takes."""
    work.add_done_callback(lambda _: answered.put(None))
    try:
        while (result := answered.get()) is not None:
            yield result
    finally:
        work.cancel()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
