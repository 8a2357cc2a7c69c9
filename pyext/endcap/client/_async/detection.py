"""Images to requests, and responses to results: what both clients do with a connection."""

from __future__ import annotations

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

from endcap.client._async.connection import AsyncConnection
from endcap.client._async.detect_stream import async_stream_results
from endcap.client._async.model_lookup import look_up_model
from endcap.client._async.shared_memory_pool import AsyncRegionPool
from endcap.client.batches import Batch, BatchRun
from endcap.client.calls import Call, Response
from endcap.client.client_base import ClientBase
from endcap.client.errors import RequestError, as_request_error
from endcap.client.images import Image, is_read, refuse_single
from endcap.client.regions.lease import Lease
from endcap.client.response_reader import ImageResponse
from endcap.client.retry import Attempts, Deadline
from endcap.client.session import Session
from endcap.client.synchronization import (
    AsyncSemaphore,
    async_in_thread,
    async_iterate,
    async_map_unordered,
    async_sleep,
)
from endcap.errors import EndcapError
from endcap.results.image_result import ImageResult, Results

Outcome = list[ImageResponse | RequestError] | RequestError


class AsyncClientCore(ClientBase):
    """A client that has been given its arguments; `_open` connects it."""

    async def _open(self) -> None:
        self._resources = contextlib.AsyncExitStack()
        self._connection = AsyncConnection(self.address, self.options)
        self._resources.push_async_callback(self._connection.close)
        self._permits = AsyncSemaphore(self._arguments.concurrency)
        self._pool: AsyncRegionPool | None = None
        try:
            model = await look_up_model(
                self._connection,
                self._arguments.model,
                best_classes=self._arguments.classify is not None,
            )
            session = Session(self._arguments, model)
            if self._arguments.shared_memory != "none":
                self._pool = AsyncRegionPool(
                    self._connection,
                    regions=session.regions,
                    region_bytes=session.region_bytes,
                    kind=self._arguments.shared_memory,
                )
                self._resources.push_async_callback(self._pool.close)
                await self._pool.open()
        except BaseException:
            await self._resources.aclose()
            raise
        self._opened = session

    async def close(self) -> None:
        """Wait for requests in flight and close the connections.

        What was not sent is "cancelled" in the results of whoever waits for them.
        """
        session = self._session
        if session.is_closed or not session.is_own_process:
            return
        session.is_closed = True
        permits = 0
        try:
            while permits < self._arguments.concurrency:
                await self._permits.acquire()
                permits += 1
        finally:
            await self._resources.aclose()
            for _ in range(permits):
                self._permits.release()  # who waits learns that it is closed

    async def detect(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> Results:
        """Return the result of each image, in the order of `images`.

        When the client is closed meanwhile, what was not sent is "cancelled", and images without a
        length are taken no further. When an awaiting task is cancelled, so are its requests.

        Args:
            images: Are taken one by one; at most concurrency * batch of them are in memory. One
                that fails has its own status and message, and does not concern the others. Results
                do not wait for the next image: threads of the client take them, one after the
                other, or with asyncio the event loop, which also takes asynchronous iterables.
            on_result: Is called, in this thread or event loop, for each image as soon as it has a
                result.
        """
        session = self._session
        session.check_usable()
        session.check_one_response()
        refuse_single(images)
        is_endless = not isinstance(images, Collection)
        batches = async_make_batches(
            images, self._arguments.batch, lambda: is_endless and session.is_closed
        )
        runs = async_map_unordered(self._run, batches, self._arguments.concurrency)
        results: dict[int, list[ImageResult]] = {}
        async with contextlib.aclosing(runs):
            async for batch, of_batch in runs:
                results[batch] = of_batch
                if on_result is not None:
                    for result in of_batch:
                        on_result(result)
        return Results(result for batch in sorted(results) for result in results[batch])

    async def detect_one(self, image: Image) -> ImageResult:
        """Return the result of one image."""
        self._session.check_usable()
        self._session.check_one_response()
        _, (result,) = await self._run(Batch(0, [image]))
        return result

    def detect_stream(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        sequence: int | str | None = None,
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images, in the order of `images`, over one gRPC stream.

        A decoupled model gives several results for an image, the last one with `final`; it may be
        empty. At most `concurrency` images are in flight. Results do not wait for the next image.

        Raises UnsupportedError over HTTP, and with shared memory.

        Args:
            sequence: The id, above 0 or a text, of a sequence that a stateful model is to take the
                images as. The first one that is sent starts it and the last one ends it, for which
                one image is held back until the next has come. A caller that stops early leaves it
                open.
        """
        refuse_single(images)
        order, steps = self._session.begin_stream(sequence)
        return async_stream_results(
            self._connection,
            order,
            images,
            reader=self._arguments.images,
            steps=steps,
            limit=self._arguments.concurrency,
        )

    async def _run(self, batch: Batch) -> tuple[int, list[ImageResult]]:
        """Return the results of a batch, and where it begins."""
        session = self._session
        async with self._permits:
            if session.is_closed:
                return batch.start, batch.cancelled(session.model.task)
            run = await self._read(batch)
            while (attempt := run.next()) is not None:
                deadline = Deadline(self.options.timeout_s, attempt.spent_s)
                request_id = session.next_id()
                begin = time.perf_counter()
                outcome = await self._request(attempt.contents, request_id, deadline)
                run.take(attempt, outcome, (time.perf_counter() - begin) * 1e3, request_id)
        return batch.start, run.results()

    async def _read(self, batch: Batch) -> BatchRun:
        arguments = (batch, self._arguments.images, self._session.model.task)
        if all(map(is_read, batch.images)):
            return BatchRun(*arguments)
        return await async_in_thread(BatchRun, *arguments)

    async def _request(
        self, contents: Sequence[bytes], request_id: str, deadline: Deadline
    ) -> Outcome:
        """Return what the response says of each image, or why the request failed."""
        connection, pool = self._connection, self._pool
        if pool is None:
            return await self._send(
                contents,
                None,
                request_id,
                lambda call: connection.infer(call, timeout_s=deadline.left_s()),
            )
        attempts = Attempts(connection.retry_policy.retries(), deadline.left_s())
        while True:
            outcome = await self._share(pool, contents, request_id, deadline)
            wait_s = attempts.wait_after_lost(outcome)
            if wait_s is None:
                return outcome
            await async_sleep(wait_s)

    async def _share(
        self,
        pool: AsyncRegionPool,
        contents: Sequence[bytes],
        request_id: str,
        deadline: Deadline,
    ) -> Outcome:
        try:
            async with pool.acquire(deadline.left_s()) as lease:
                return await self._send(
                    contents,
                    lease,
                    request_id,
                    lambda call: pool.infer(lease, call, timeout_s=deadline.left_s()),
                )
        except EndcapError as error:
            return as_request_error(error)

    async def _send(
        self,
        contents: Sequence[bytes],
        lease: Lease | None,
        request_id: str,
        infer: Callable[[Call], Awaitable[Response]],
    ) -> Outcome:
        # What is returned holds no view of shared memory, which ends with the lease.
        session = self._session
        try:
            call = session.requests.call(contents, request_id, lease)
            response = await infer(call)
            tensors = session.requests.read(call, response, len(contents), lease)
            return [session.reader.try_read(each) for each in tensors]
        except EndcapError as error:
            return as_request_error(error)


async def async_make_batches(
    images: Iterable[Image] | AsyncIterable[Image], size: int, stop: Callable[[], bool]
) -> AsyncGenerator[Batch, None]:
    """Cut images into batches, each when it is asked for; end where `stop` says so."""
    start, taken = 0, list[Image]()
    async with contextlib.aclosing(async_iterate(images)) as source:
        async for image in source:
            taken.append(image)
            if len(taken) == size:
                yield Batch(start, taken)
                start, taken = start + size, []
                if stop():
                    return
    if taken:
        yield Batch(start, taken)
