"""NVIDIA DALI on the CPU: one pipeline of three operators, fed with bytes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.preprocess import PAD, SIZE
from benchmarks.preprocess.peer import Batch, Peer, Single


def _pipeline(batch_size: int, threads: int) -> Any:
    dali: Any = import_module("nvidia.dali")
    fn, types = import_module("nvidia.dali.fn"), import_module("nvidia.dali.types")

    @dali.pipeline_def(  # type: ignore[untyped-decorator]
        batch_size=batch_size,
        num_threads=threads,
        device_id=None,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
    )
    def define() -> Any:
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        picture = fn.decoders.image(encoded, output_type=types.RGB, jpeg_fancy_upsampling=True)
        resized = fn.resize(
            picture,
            size=[SIZE, SIZE],
            mode="not_larger",
            interp_type=types.INTERP_LINEAR,
            antialias=False,
        )
        return fn.crop_mirror_normalize(
            resized,
            crop=(SIZE, SIZE),
            rounding="truncate",  # an odd pixel of padding goes behind, as in the others
            out_of_bounds_policy="pad",
            fill_values=[PAD / 255.0] * 3,
            std=[255.0] * 3,
            dtype=types.FLOAT,
            output_layout="CHW",
        )

    pipeline = define()
    pipeline.build()
    return pipeline


def single() -> Single:
    """Return a batch of one, on one thread of DALI."""
    pipeline = _pipeline(1, 1)

    def run(encoded: bytes) -> Any:
        return _run(pipeline, [encoded])[0]

    return run


def batch(threads: int) -> Batch:
    """Return a batch on DALI's threads; a pipeline is made for each size of batch."""
    pipelines = {1: _pipeline(1, threads)}

    def run(images: Sequence[bytes]) -> Any:
        count = len(images)
        if count not in pipelines:
            pipelines[count] = _pipeline(count, threads)
        return _run(pipelines[count], images)

    return run


def _run(pipeline: Any, images: Sequence[bytes]) -> Any:
    pipeline.feed_input("encoded", [np.frombuffer(image, np.uint8) for image in images])
    (tensors,) = pipeline.run()
    return tensors.as_array()


PEER = Peer(
    "DALI CPU", "decoders.image, resize, crop_mirror_normalize", single, batch, psnr_db=50.0
)
