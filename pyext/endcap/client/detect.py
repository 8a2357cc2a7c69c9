"""Sends images to a model and reads its answers, from threads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING

from endcap.client.base import ClientBase
from endcap.client.batches import Batch, BatchRun, make_batches
from endcap.client.calls import Call, Response
from endcap.client.connection import Connection
from endcap.client.deadline import Deadline
from endcap.client.detect_run import DetectRun
from endcap.client.errors import RequestError, as_request_error
from endcap.client.images import Content, Image, refuse_single
from endcap.client.queries import run_queries
from endcap.client.reading import Found
from endcap.client.retry import Attempts
from endcap.client.run_steps import run_steps
from endcap.client.settings import Plan
from endcap.client.steps import read_served_steps
from endcap.client.stream_detect import stream_results
from endcap.errors import EndcapError
from endcap.results.image_result import ImageResult, Results

if TYPE_CHECKING:
    from endcap.client.shared_memory import Lease, SharedMemoryPool


class DetectionClient(ClientBase):
    """A client of an ensemble that takes `encoded` and answers with detections or classes.

    url: HOST:PORT, with grpc://, grpcs://, http:// or https:// before it where `protocol` is not
        given.
    protocol: "grpc" or "http"; None takes the URL's, else gRPC.
    model: the ensemble's name.
    timeout_s: for each image: its requests, their retries, and the wait for shared memory.
    concurrency: how many requests are in flight at once.
    batch: how many images go into one request, at most.
    labels: class names by id; None reads them from the parameter `labels` of the model's
        configuration (comma-separated, or a JSON list). A classifier's own output `class_labels`
        names what these do not.
    extras: whether to ask for keypoints, angles and masks, too, where the model has them.
    shared_memory: "system" or "cuda" lets tensors go through memory that this machine's server
        shares; see `SharedMemoryPool`.
    regions, region_bytes: how many regions of it, and the size of each; None are as many as
        `concurrency`, with room for a batch, 8 MiB for each encoded image.
    preprocess, postprocess: "client" does that here, with the parameters of the served ensemble.
    classify: how many best classes to ask Triton's classification extension for, of a classifier
        with the output class_probabilities; None takes the classes that the model answers.
    color: "rgb" or "bgr", of images that are pixels.
    jpeg_quality: these are sent as JPEG of this quality, 1 to 100, without chroma subsampling;
        with preprocess="client" they are not encoded.
    request_id: what the ids of requests begin with; the server's log has them. None draws one.
    options: of the connection: retries, headers, TLS, compression, keepalive. Its timeout_s goes
        before `timeout_s`.

    An image is bytes or a path of an encoded file, which is sent as it is, or an array uint8: [N]
    of an encoded file, [H,W,3] or [H,W] of pixels.

    Raises ClientError when no server answers there, it does not serve the model, or the model's
    labels cannot be read; InvalidArgumentError for an option that cannot be used, and
    UnsupportedError for one that this model does not go with. Thread-safe; a process that is forked
    off needs a client of its own.
    """

    def __enter__(self) -> DetectionClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._plan.is_own_process:
            self._connection.close()  # cancels what is in flight over gRPC: nobody waits for it
        self.close()

    def close(self) -> None:
        """Waits for requests in flight and closes the connections."""
        if self._plan.is_own_process:
            self._plan.is_closed = True
            self._resources.close()

    def detect(
        self,
        images: Iterable[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> Results:
        """Returns what became of each image, in the order of `images`.

        images: are taken one by one; at most concurrency * batch of them are in memory. One that
            fails has its own status and message, and does not concern the others. A thread takes
            them, so that answers need not wait for the next image.
        on_result: is called, in this thread, for each image as soon as it is answered.

        When another thread closes the client meanwhile, what was not sent is "cancelled", and an
        iterator without a length is taken no further.
        """
        self._plan.check_usable()
        self._plan.check_whole_answers()
        refuse_single(images)
        run = DetectRun(self._submit, self.task, on_result)
        return run.results(
            make_batches(images, self._settings.batch),
            most=self._settings.concurrency,
            counted=isinstance(images, Collection),
        )

    def detect_one(self, image: Image) -> ImageResult:
        """Returns what became of one image."""
        (result,) = self.detect([image])
        return result

    def detect_stream(
        self, images: Iterable[Image], *, sequence: int | str | None = None
    ) -> Iterator[ImageResult]:
        """Yields what became of each image, in the order of `images`, over one gRPC stream.

        A decoupled model gives several results for an image, the last one with `final`; it may be
        empty. At most `concurrency` images are in flight.

        sequence: the id, above 0 or a text, of a sequence that a stateful model is to take the
            images as. The first one that is sent starts it and the last one ends it, for which one
            image is held back until the next has come. A caller that stops early leaves it open.

        Raises UnsupportedError over HTTP, and with shared memory or steps that the client takes.
        """
        refuse_single(images)
        book, steps = self._plan.begin_stream(sequence)
        return stream_results(
            self._connection,
            book,
            images,
            reader=self._settings.images,
            steps=steps,
            most=self._settings.concurrency,
        )

    def _begin(self) -> None:
        self._resources = contextlib.ExitStack()
        self._connection = Connection(self.address, self._settings.options)
        self._resources.callback(self._connection.close)
        self._pool: SharedMemoryPool | None = None
        try:
            self._opened = self._look_up()
            if self._settings.shared_memory != "none":
                self._pool = self._resources.enter_context(self._make_pool(self._opened))
        except BaseException:
            self._resources.close()
            raise
        self._workers = self._resources.enter_context(
            ThreadPoolExecutor(self._settings.concurrency, thread_name_prefix="endcap client")
        )

    def _look_up(self) -> Plan:
        model = run_queries(self._connection, self._settings.look_up())
        takes_steps = self._settings.takes_steps
        steps = read_served_steps(self._connection, model.name) if takes_steps else None
        return Plan(self._settings, model, steps)

    def _make_pool(self, plan: Plan) -> SharedMemoryPool:
        from endcap.client.shared_memory import SharedMemoryPool

        kind = self._settings.shared_memory
        assert kind != "none"
        return SharedMemoryPool(
            self._connection,
            regions=self._settings.regions,
            region_bytes=plan.region_bytes,
            kind=kind,
        )

    def _submit(self, batch: Batch) -> Future[list[ImageResult]] | None:
        """Has a batch sent; returns None where the client was closed."""
        try:
            return None if self._plan.is_closed else self._workers.submit(self._run, batch)
        except RuntimeError:  # closed in between
            if not self._plan.is_closed:
                raise
            return None

    def _run(self, batch: Batch) -> list[ImageResult]:
        run = BatchRun(batch, self._settings.images, self.task)
        while (attempt := run.next()) is not None:
            deadline = Deadline(self._settings.options.timeout_s, attempt.spent_s)
            request_id = self._plan.next_id()
            begin = time.perf_counter()
            answers = self._request(attempt.contents, request_id, deadline)
            run.take(attempt, answers, (time.perf_counter() - begin) * 1e3, request_id)
        return run.results()

    def _request(
        self, contents: Sequence[Content], request_id: str, deadline: Deadline
    ) -> list[Found | RequestError] | RequestError:
        """Returns what was found in each image, or why the request failed."""
        connection, pool = self._connection, self._pool
        if pool is None:
            return self._walk(
                contents,
                None,
                request_id,
                lambda call: connection.infer(call, timeout_s=deadline.left_s()),
            )
        attempts = Attempts(connection.retry_policy.retries(), deadline.left_s())
        while True:
            answers = self._share(pool, contents, request_id, deadline)
            wait_s = attempts.wait_after_lost(answers)
            if wait_s is None:
                return answers
            time.sleep(wait_s)

    def _share(
        self,
        pool: SharedMemoryPool,
        contents: Sequence[Content],
        request_id: str,
        deadline: Deadline,
    ) -> list[Found | RequestError] | RequestError:
        try:
            with pool.acquire(deadline.left_s()) as lease:
                return self._walk(
                    contents,
                    lease,
                    request_id,
                    lambda call: pool.infer(lease, call, timeout_s=deadline.left_s()),
                )
        except EndcapError as error:
            return as_request_error(error)

    def _walk(
        self,
        contents: Sequence[Content],
        lease: Lease | None,
        request_id: str,
        infer: Callable[[Call], Response],
    ) -> list[Found | RequestError] | RequestError:
        # What is returned holds no view of shared memory, which ends with the lease.
        try:
            tensors = run_steps(self._plan.pipeline.steps(contents, lease, request_id), infer)
            return [self._plan.reader.try_read(each) for each in tensors]
        except EndcapError as error:
            return as_request_error(error)
