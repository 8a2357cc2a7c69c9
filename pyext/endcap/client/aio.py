"""Sends images to a model and reads its answers, from an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING

from endcap.client.aio_connection import AsyncConnection
from endcap.client.aio_stream_detect import stream_results_async
from endcap.client.base import ClientBase
from endcap.client.batches import Batch, BatchRun, make_batches_async
from endcap.client.calls import Call, Response
from endcap.client.cancellation import cancel_all
from endcap.client.deadline import Deadline
from endcap.client.errors import ClientError, RequestError, as_request_error
from endcap.client.images import Content, Image, is_read, refuse_single
from endcap.client.queries import run_queries_async
from endcap.client.reading import Found
from endcap.client.retry import Attempts
from endcap.client.run_steps import run_steps_async
from endcap.client.settings import Plan
from endcap.client.steps import read_served_steps_async
from endcap.errors import EndcapError
from endcap.results.image_result import ImageResult, Results

if TYPE_CHECKING:
    from endcap.client.shared_memory import AsyncSharedMemoryPool, Lease


class AsyncDetectionClient(ClientBase):
    """`DetectionClient` for asyncio: the same arguments, inside `async with`.

    It connects when the block begins, which raises what DetectionClient does. Any number of tasks
    may use it at once, of the event loop that it was connected in.
    """

    async def __aenter__(self) -> AsyncDetectionClient:
        if self._opened is not None:
            raise ClientError("the client is connected already; make one for each `async with`")
        async with contextlib.AsyncExitStack() as resources:
            self._connection = AsyncConnection(self.address, self._settings.options)
            resources.push_async_callback(self._connection.close)
            plan = await self._look_up()
            self._pool: AsyncSharedMemoryPool | None = None
            if self._settings.shared_memory != "none":
                self._pool = await resources.enter_async_context(self._make_pool(plan))
            self._free = asyncio.Semaphore(self._settings.concurrency)
            self._resources = resources.pop_all()
            self._opened = plan
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        if self._plan.is_own_process:
            self._plan.is_closed = True
            await self._resources.aclose()

    async def detect(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> Results:
        """Returns what became of each image, in the order of `images`.

        images: are taken one by one; at most concurrency * batch of them are in memory. One that
            fails has its own status and message, and does not concern the others.
        on_result: is called, in the event loop, for each image as soon as it is answered.

        When the awaiting task is cancelled, so are the requests in flight. When the client is
        closed meanwhile, what was not sent is "cancelled", and images without a length are taken
        no further.
        """
        self._plan.check_usable()
        self._plan.check_whole_answers()
        refuse_single(images)
        batches = make_batches_async(images, self._settings.batch)
        counted = isinstance(images, Collection)
        turn = asyncio.Lock()
        answered: dict[int, list[ImageResult]] = {}

        async def work() -> None:
            while True:
                async with turn:
                    batch = await anext(batches, None)
                if batch is None:
                    return
                closed = self._plan.is_closed
                results = batch.cancelled(self.task) if closed else await self._run(batch)
                answered[batch.start] = results
                if on_result is not None:
                    for result in results:
                        on_result(result)
                if closed and not counted:
                    return

        workers = [asyncio.ensure_future(work()) for _ in range(self._settings.concurrency)]
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await cancel_all(workers)
            await batches.aclose()
        for worker in done:
            worker.result()
        return Results(result for start in sorted(answered) for result in answered[start])

    async def detect_one(self, image: Image) -> ImageResult:
        """Returns what became of one image."""
        self._plan.check_usable()
        self._plan.check_whole_answers()
        (result,) = await self._run(Batch(0, [image]))
        return result

    def detect_stream(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        sequence: int | str | None = None,
    ) -> AsyncGenerator[ImageResult, None]:
        """Yields what became of each image; see `DetectionClient.detect_stream`.

        Images may come asynchronously, and results do not wait for the next one.
        """
        refuse_single(images)
        book, steps = self._plan.begin_stream(sequence)
        return stream_results_async(
            self._connection,
            book,
            images,
            reader=self._settings.images,
            steps=steps,
            most=self._settings.concurrency,
        )

    async def _look_up(self) -> Plan:
        model = await run_queries_async(self._connection, self._settings.look_up())
        takes_steps = self._settings.takes_steps
        steps = await read_served_steps_async(self._connection, model.name) if takes_steps else None
        return Plan(self._settings, model, steps)

    def _make_pool(self, plan: Plan) -> AsyncSharedMemoryPool:
        from endcap.client.shared_memory import AsyncSharedMemoryPool

        kind = self._settings.shared_memory
        assert kind != "none"
        return AsyncSharedMemoryPool(
            self._connection,
            regions=self._settings.regions,
            region_bytes=plan.region_bytes,
            kind=kind,
        )

    async def _run(self, batch: Batch) -> list[ImageResult]:
        async with self._free:
            run = await self._read(batch)
            while (attempt := run.next()) is not None:
                deadline = Deadline(self._settings.options.timeout_s, attempt.spent_s)
                request_id = self._plan.next_id()
                begin = time.perf_counter()
                answers = await self._request(attempt.contents, request_id, deadline)
                run.take(attempt, answers, (time.perf_counter() - begin) * 1e3, request_id)
        return run.results()

    async def _read(self, batch: Batch) -> BatchRun:
        if all(map(is_read, batch.images)):
            return BatchRun(batch, self._settings.images, self.task)
        return await asyncio.to_thread(BatchRun, batch, self._settings.images, self.task)

    async def _request(
        self, contents: Sequence[Content], request_id: str, deadline: Deadline
    ) -> list[Found | RequestError] | RequestError:
        """Returns what was found in each image, or why the request failed."""
        connection, pool = self._connection, self._pool
        if pool is None:
            return await self._walk(
                contents,
                None,
                request_id,
                lambda call: connection.infer(call, timeout_s=deadline.left_s()),
            )
        attempts = Attempts(connection.retry_policy.retries(), deadline.left_s())
        while True:
            answers = await self._share(pool, contents, request_id, deadline)
            wait_s = attempts.wait_after_lost(answers)
            if wait_s is None:
                return answers
            await asyncio.sleep(wait_s)

    async def _share(
        self,
        pool: AsyncSharedMemoryPool,
        contents: Sequence[Content],
        request_id: str,
        deadline: Deadline,
    ) -> list[Found | RequestError] | RequestError:
        try:
            async with pool.acquire(deadline.left_s()) as lease:
                return await self._walk(
                    contents,
                    lease,
                    request_id,
                    lambda call: pool.infer(lease, call, timeout_s=deadline.left_s()),
                )
        except EndcapError as error:
            return as_request_error(error)

    async def _walk(
        self,
        contents: Sequence[Content],
        lease: Lease | None,
        request_id: str,
        infer: Callable[[Call], Awaitable[Response]],
    ) -> list[Found | RequestError] | RequestError:
        # What is returned holds no view of shared memory, which ends with the lease.
        pipeline = self._plan.pipeline
        try:
            steps = pipeline.steps(contents, lease, request_id)
            tensors = await run_steps_async(steps, infer, blocking=pipeline.blocking)
            return [self._plan.reader.try_read(each) for each in tensors]
        except EndcapError as error:
            return as_request_error(error)
