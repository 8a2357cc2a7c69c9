"""How a client asks on each pipeline: one coroutine a request, which gives the answer read.

Requests that stay the same are made once. Work of the client's own runs in threads, since it
releases the GIL.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np

from benchmarks.pipelines import decoupled, in_process
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.http_calls import Http, connect, encoded, request_body
from benchmarks.pipelines.services import Running

Call = Callable[[], Awaitable[Answer]]
Open = Callable[[Running, str, bytes], AbstractAsyncContextManager[Call]]

_DETECTIONS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")
_CLASSES = ("class_labels", "class_scores")
_CROPS_AT_ONCE = 16  # max_batch_size of the classifiers
_RING = 5  # the class that has a classifier of its own


@asynccontextmanager
async def triton(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """The whole pipeline is one model."""
    outputs = (*_DETECTIONS, *(_CLASSES if model.startswith("cascade") else ()))
    request = request_body({"encoded": encoded(image, 1, 1)}, outputs)
    async with connect(service.http) as http:

        async def call() -> Answer:
            return read(await http.infer(model, request), outputs)

        yield call


@asynccontextmanager
async def client_side(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """The client decodes and reads the head; the tensor crosses the network."""
    preprocess, postprocess = in_process.ends()

    def before() -> tuple[tuple[bytes, int], Any]:
        made = preprocess(image)
        return request_body({"images": made.images}, ("head",)), made.geometry

    def after(result: Any, geometry: Any) -> Answer:
        return in_process.answer_of(postprocess(result.as_numpy("head"), geometry))

    async with connect(service.http) as http:

        async def call() -> Answer:
            request, geometry = await asyncio.to_thread(before)
            return await asyncio.to_thread(after, await http.infer(model, request), geometry)

        yield call


@asynccontextmanager
async def service(running: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """The file is posted, JSON comes back."""
    headers = {"Content-Type": "image/jpeg"}
    async with connect(running.http) as http:

        async def call() -> Answer:
            content, _ = await http.post("/detect", image, headers)
            return Answer(**json.loads(content))

        yield call


@asynccontextmanager
async def steps(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """Detect, cut out, classify: the client calls a model for each."""
    detect = request_body({"encoded": encoded(image, 1, 1)}, _DETECTIONS)
    file = encoded(image, 1)
    async with connect(service.http) as http:

        async def call() -> Answer:
            found = read(await http.infer(model, detect), _DETECTIONS)
            rois = np.array(found.boxes, np.float32).reshape(-1, 4)
            crops = await http.infer(
                "preprocess_rois", request_body({"encoded": file, "rois": rois}, ("images",))
            )
            labels, scores = await _classify(http, crops.as_numpy("images"), found.classes)
            return Answer(found.boxes, found.scores, found.classes, labels, scores)

        yield call


async def _classify(http: Http, images: Any, classes: list[int]) -> tuple[list[str], list[float]]:
    """The best label of each crop, and its score; rings go to their own classifier."""
    rings = np.array(classes) == _RING
    parts = [
        (model, rows[start : start + _CROPS_AT_ONCE])
        for model, rows in (
            ("classify_rings", np.flatnonzero(rings)),
            ("classify", np.flatnonzero(~rings)),
        )
        for start in range(0, len(rows), _CROPS_AT_ONCE)
    ]
    requests = [
        http.infer(model, request_body({"images": images[rows]}, _CLASSES)) for model, rows in parts
    ]
    labels, scores = [""] * len(classes), [0.0] * len(classes)
    for (_, rows), answer in zip(parts, await asyncio.gather(*requests), strict=True):
        given = (answer.as_numpy(name)[:, 0].tolist() for name in _CLASSES)
        for row, label, score in zip(rows, *given, strict=True):
            labels[row], scores[row] = label.decode(), score
    return labels, scores


def read(result: Any, outputs: tuple[str, ...]) -> Answer:
    """The answer in a result of a model that detects one image, batch dimension in front."""
    count = int(result.as_numpy("num_detections")[0, 0])
    rows = [result.as_numpy(name)[0, :count].tolist() for name in outputs[1:]]
    if len(rows) > 3:
        rows[3] = [label.decode() for label in rows[3]]
    return Answer(*rows)


CALLS: Mapping[str, Open] = {
    "triton": triton,
    "client side": client_side,
    "service": service,
    "in process": in_process.threads,
    "steps": steps,
    "decoupled": decoupled.stream,
}
