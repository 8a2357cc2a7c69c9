"""The pipeline without a server: both ends of endcap and onnxruntime, called from Python threads.

It is what a server can come near to at best: nothing is sent, nothing is copied between processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.affinity import cpu_count
from benchmarks.pipelines import NUM_CLASSES, SCORE_THRESHOLD
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.services import Running
from benchmarks.preprocess import SIZE
from endcap import Postprocessor, Preprocessor


def ends() -> tuple[Preprocessor, Postprocessor]:
    """The steps around the network."""
    preprocess = Preprocessor(preset="ultralytics", size=SIZE)
    postprocess = Postprocessor(
        head="yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD
    )
    return preprocess, postprocess


def answer_of(results: Any) -> Answer:
    """What was found in the only image."""
    found = results[0]
    return Answer(found.boxes.tolist(), found.scores.tolist(), found.class_ids.tolist())


@asynccontextmanager
async def threads(
    service: Running, model: str, image: bytes
) -> AsyncIterator[Callable[[], Awaitable[Answer]]]:
    """A thread for each CPU; the network has all CPUs for a call that is alone, else one."""
    preprocess, postprocess = ends()
    on_all, on_one = _session(service.network, 0), _session(service.network, 1)
    under_way = 0

    def work(session: Any) -> Answer:
        made: Any = preprocess(image)
        (head,) = session.run(["head"], {"images": made.images})
        return answer_of(postprocess(head, made.geometry))

    with ThreadPoolExecutor(cpu_count()) as pool:

        async def call() -> Answer:
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
