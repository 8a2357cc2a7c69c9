"""Requests of each pipeline: one coroutine a request, which returns its detections.

Requests that stay the same are made once. Triton and the service are called over HTTP, with one
connection pool (aiohttp), decoupled models over gRPC, because Triton's HTTP endpoint refuses them.
Work in the client's process (both ends of endcap, and onnxruntime) runs in threads, since it
releases the GIL.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
from tritonclient import grpc
from tritonclient import http as triton_http
from tritonclient.grpc import aio

from benchmarks.pipelines import NUM_CLASSES, SCORE_THRESHOLD
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running
from benchmarks.preprocess import SIZE
from benchmarks.timing import cpu_count
from endcap import Postprocessor, Preprocessor

_TYPES = {np.dtype(np.float32): "FP32", np.dtype(np.object_): "BYTES"}

# aiohttp asks for gzip of itself, and Triton then compresses every tensor that it sends.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


class CallError(Exception):
    """A service responded with an error; the message is its own."""


class Http:
    """A service, and the connections to it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, Any]:
        """Return the response's body and headers. Raises CallError where its status is not 200."""
        async with self._session.post(self._url + path, data=body, headers=headers) as response:
            content = await response.read()
            if response.status != 200:
                raise CallError(f"{response.status}: {content.decode(errors='replace')[:300]}")
            return content, response.headers

    async def infer(self, model: str, request: tuple[bytes, int]) -> Any:
        """Send what `request_body` made; the result as tritonclient has it."""
        body, json_bytes = request
        headers = {"Inference-Header-Content-Length": str(json_bytes)}
        content, told = await self.post(f"/v2/models/{model}/infer", body, headers)
        length = int(told["Inference-Header-Content-Length"])
        return triton_http.InferenceServerClient.parse_response_body(content, header_length=length)


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Http]:
    """As many connections as there are requests at once."""
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=_UNCOMPRESSED
    ) as session:
        yield Http(url, session)


def request_body(inputs: dict[str, Any], outputs: Sequence[str]) -> tuple[bytes, int]:
    """Return a request with binary tensors, and how many of its bytes are JSON.

    Args:
        inputs: Name to array: float32, or object for BYTES.
        outputs: The names of the outputs.
    """
    tensors = []
    for name, array in inputs.items():
        tensor = triton_http.InferInput(name, list(array.shape), _TYPES[array.dtype])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    wanted = [triton_http.InferRequestedOutput(name) for name in outputs]
    body, length = triton_http.InferenceServerClient.generate_request_body(tensors, outputs=wanted)
    return body, length


def encoded(image: bytes, *shape: int) -> Any:
    """Return a file as the input `encoded` takes it."""
    array = np.empty(shape, np.object_)
    array.flat[0] = image
    return array


_ROW = ("detection_boxes", "detection_scores", "detection_classes", "class_labels", "class_scores")


@asynccontextmanager
async def stream(
    service: Running, model: str, image: bytes
) -> AsyncIterator[Callable[[], Awaitable[Response]]]:
    """Yield a call over gRPC, which returns after the final response."""
    file = grpc.InferInput("encoded", [1], "BYTES")
    file.set_data_from_numpy(encoded(image, 1))
    request = {"model_name": model, "inputs": [file], "enable_empty_final_response": True}
    async with aio.InferenceServerClient(service.grpc) as client:

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield request

        async def call() -> Response:
            rows: list[list[Any]] = []
            async for result, error in client.stream_infer(requests()):
                if error is not None:
                    raise CallError(str(error))
                if result.as_numpy("detection_scores") is not None:
                    rows.append([result.as_numpy(name)[0] for name in _ROW])
                if result.get_response().parameters["triton_final_response"].bool_param:
                    break
            return _respond(rows)

        yield call


def _respond(rows: list[list[Any]]) -> Response:
    boxes, scores, classes, labels, class_scores = zip(*rows, strict=True) if rows else ((),) * 5
    return Response(
        np.array(boxes, np.float32).tolist(),
        np.array(scores, np.float32).tolist(),
        np.array(classes).tolist(),
        [label.decode() for label in labels],
        np.array(class_scores, np.float32).tolist(),
    )


def ends() -> tuple[Preprocessor, Postprocessor]:
    """Return the steps around the network."""
    preprocess = Preprocessor(preset="ultralytics", size=SIZE)
    postprocess = Postprocessor(
        head="yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD
    )
    return preprocess, postprocess


def response_of(results: Any) -> Response:
    """Return the detections of the only image."""
    found = results[0]
    return Response(found.boxes.tolist(), found.scores.tolist(), found.class_ids.tolist())


@asynccontextmanager
async def threads(
    service: Running, model: str, image: bytes
) -> AsyncIterator[Callable[[], Awaitable[Response]]]:
    """Yield a thread for each CPU; the network has all CPUs for a call that is alone, else one."""
    preprocess, postprocess = ends()
    on_all, on_one = _session(service.network, 0), _session(service.network, 1)
    under_way = 0

    def work(session: Any) -> Response:
        made: Any = preprocess(image)
        (head,) = session.run(["head"], {"images": made.images})
        return response_of(postprocess(head, made.geometry))

    with ThreadPoolExecutor(cpu_count()) as pool:

        async def call() -> Response:
            nonlocal under_way
            under_way += 1
            try:
                session = on_all if under_way == 1 else on_one
                return await asyncio.get_running_loop().run_in_executor(pool, work, session)
            finally:
                under_way -= 1

        yield call


def _session(network: str, thread_count: int) -> Any:
    import onnxruntime  # only this pipeline needs it in the client

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])


Call = Callable[[], Awaitable[Response]]
Open = Callable[[Running, str, bytes], AbstractAsyncContextManager[Call]]

_DETECTIONS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")
_CLASSES = ("class_labels", "class_scores")
_CROPS_AT_ONCE = 16  # max_batch_size of the classifiers
_RING = 5  # the class that has a classifier of its own


@asynccontextmanager
async def triton(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """Yield a call of one model, which is the whole pipeline."""
    outputs = (*_DETECTIONS, *(_CLASSES if model.startswith("cascade") else ()))
    request = request_body({"encoded": encoded(image, 1, 1)}, outputs)
    async with connect(service.http) as http:

        async def call() -> Response:
            return read(await http.infer(model, request), outputs)

        yield call


@asynccontextmanager
async def client_side(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """Yield a call that decodes and reads the head in the client; the tensor is sent."""
    preprocess, postprocess = ends()

    def before() -> tuple[tuple[bytes, int], Any]:
        made = preprocess(image)
        return request_body({"images": made.images}, ("head",)), made.geometry

    def after(result: Any, geometry: Any) -> Response:
        return response_of(postprocess(result.as_numpy("head"), geometry))

    async with connect(service.http) as http:

        async def call() -> Response:
            request, geometry = await asyncio.to_thread(before)
            return await asyncio.to_thread(after, await http.infer(model, request), geometry)

        yield call


@asynccontextmanager
async def service(running: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """Yield a call that posts the file and gets JSON."""
    headers = {"Content-Type": "image/jpeg"}
    async with connect(running.http) as http:

        async def call() -> Response:
            content, _ = await http.post("/detect", image, headers)
            return Response(**json.loads(content))

        yield call


@asynccontextmanager
async def steps(service: Running, model: str, image: bytes) -> AsyncIterator[Call]:
    """Detect, cut out, classify: the client calls a model for each."""
    detect = request_body({"encoded": encoded(image, 1, 1)}, _DETECTIONS)
    file = encoded(image, 1)
    async with connect(service.http) as http:

        async def call() -> Response:
            found = read(await http.infer(model, detect), _DETECTIONS)
            rois = np.array(found.boxes, np.float32).reshape(-1, 4)
            crops = await http.infer(
                "preprocess_rois", request_body({"encoded": file, "rois": rois}, ("images",))
            )
            labels, scores = await _classify(http, crops.as_numpy("images"), found.classes)
            return Response(found.boxes, found.scores, found.classes, labels, scores)

        yield call


async def _classify(http: Http, images: Any, classes: list[int]) -> tuple[list[str], list[float]]:
    """Return the best label of each crop, and its score; rings go to their own classifier."""
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
    for (_, rows), response in zip(parts, await asyncio.gather(*requests), strict=True):
        given = (response.as_numpy(name)[:, 0].tolist() for name in _CLASSES)
        for row, label, score in zip(rows, *given, strict=True):
            labels[row], scores[row] = label.decode(), score
    return labels, scores


def read(result: Any, outputs: tuple[str, ...]) -> Response:
    """Return the response of a model for one image, with a batch dimension in front."""
    count = int(result.as_numpy("num_detections")[0, 0])
    rows = [result.as_numpy(name)[0, :count].tolist() for name in outputs[1:]]
    if len(rows) > 3:
        rows[3] = [label.decode() for label in rows[3]]
    return Response(*rows)


CALLS: Mapping[str, Open] = {
    "triton": triton,
    "client side": client_side,
    "service": service,
    "in process": threads,
    "steps": steps,
    "decoupled": stream,
}
