"""Sends tensors to the network itself: one that is ready, or one made of a file each time.

With a ready tensor every head that comes is compared with the first, and boxes are read out of that
one alone; with a file they are read out of every head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clients.drivers import Ask
from benchmarks.clients.picture import tensor
from benchmarks.clients.ways import Way
from benchmarks.pipelines import NUM_CLASSES, SCORE_THRESHOLD
from benchmarks.pipelines.answers import Answer
from benchmarks.preprocess import SIZE
from benchmarks.server.verify import VerificationError
from endcap import Postprocessor, Preprocessor
from endcap.client import Call, Connection, InputTensor, OutputTensor, SharedMemoryPool

_MODEL = "detector"
_HEAD_SHAPE = (1, 4 + NUM_CLASSES, 8400)
_ALIGNED = 4096  # more than two tensors lose by their alignment


class _Heads:
    """What the network answers, and the detections in it."""

    def __init__(self, geometry: NDArray[np.float32]) -> None:
        self._geometry = geometry
        self._first: tuple[NDArray[Any], Answer] | None = None

    def read(self, head: Any) -> Answer:
        """The detections; raise VerificationError for another head than the first."""
        if self._first is None:
            self._first = (np.array(head), self._detections(head))
        first, answer = self._first
        if not np.array_equal(head, first):
            raise VerificationError("a head under load is not the first one")
        return answer

    def _detections(self, head: Any) -> Answer:
        postprocess = Postprocessor(
            "yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD
        )
        found: Any = postprocess(head, self._geometry)
        found = found[0]
        return Answer(found.boxes.tolist(), found.scores.tolist(), found.class_ids.tolist())


@contextmanager
def ready_tensor(way: Way, connection: Connection, image: bytes, concurrency: int) -> Iterator[Ask]:
    """Yield what threads may call, `concurrency` of them at once."""
    made = tensor(image)
    heads = _Heads(made.geometry)
    if way.shared_memory == "none":
        call = Call(_MODEL, [InputTensor.of("images", made.images)], [OutputTensor("head")])
        yield lambda: heads.read(connection.infer(call).tensors["head"])
        return
    size = made.images.nbytes + 4 * int(np.prod(_HEAD_SHAPE)) + _ALIGNED
    with SharedMemoryPool(
        connection, regions=concurrency, region_bytes=size, kind=way.shared_memory
    ) as pool:

        def ask() -> Answer:
            with pool.acquire() as lease:
                images = lease.put("images", made.images)
                head = lease.output("head", _HEAD_SHAPE, np.float32)
                answer = pool.infer(lease, Call(_MODEL, [images], [head]))
                return heads.read(lease.read(head, answer))

        yield ask


@contextmanager
def tensor_of_file(
    way: Way, connection: Connection, image: bytes, concurrency: int
) -> Iterator[Ask]:
    """The same from a file, which is decoded and resized here, to detections."""
    preprocess = Preprocessor("ultralytics", size=SIZE)
    postprocess = Postprocessor("yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD)

    def read(head: Any, geometry: NDArray[np.float32]) -> Answer:
        detections: Any = postprocess(head, geometry)
        first = detections[0]
        return Answer(first.boxes.tolist(), first.scores.tolist(), first.class_ids.tolist())

    if way.shared_memory == "none":

        def ask() -> Answer:
            made = preprocess(image)
            call = Call(_MODEL, [InputTensor.of("images", made.images)], [OutputTensor("head")])
            return read(connection.infer(call).tensors["head"], made.geometry)

        yield ask
        return
    shape = preprocess(image).images.shape
    size = 4 * (int(np.prod(shape)) + int(np.prod(_HEAD_SHAPE))) + _ALIGNED
    with SharedMemoryPool(
        connection, regions=concurrency, region_bytes=size, kind=way.shared_memory
    ) as pool:

        def ask_shared() -> Answer:
            with pool.acquire() as lease:
                tensor, images = lease.empty("images", shape, np.float32)
                made = preprocess(image, out=tensor)
                head = lease.output("head", _HEAD_SHAPE, np.float32)
                response = pool.infer(lease, Call(_MODEL, [images], [head]))
                return read(lease.read(head, response), made.geometry)

        yield ask_shared
