"""DALI pipelines of one graph, fed with arrays and run on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from nvidia.dali import Pipeline, fn

Samples = list[npt.NDArray[Any]]
Graph = Callable[..., Any]


def as_bytes(file: bytes) -> npt.NDArray[np.uint8]:
    """A file as the sample that fn.endcap.preprocess takes."""
    return np.frombuffer(file, np.uint8)


def new_pipeline(batch_size: int, threads: int = 2, **options: Any) -> Pipeline:
    return Pipeline(
        batch_size,
        threads,
        device_id=None,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
        **options,
    )


def build(graph: Graph, names: Sequence[str], batch_size: int, **options: Any) -> Pipeline:
    """The pipeline whose outputs are what `graph` makes of an external source for each name."""
    pipeline = new_pipeline(batch_size, **options)
    with pipeline:
        outputs = graph(**{name: fn.external_source(name=name) for name in names})
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline


def feed(pipeline: Pipeline, inputs: dict[str, Samples]) -> list[Any]:
    """One iteration: DALI's lists of samples, by output."""
    for name, samples in inputs.items():
        pipeline.feed_input(name, samples)
    return list(pipeline.run())


def to_samples(output: Any) -> Samples:
    return [np.array(output.at(i)) for i in range(len(output))]


def run(graph: Graph, inputs: dict[str, Samples], **options: Any) -> list[Samples]:
    """One iteration of a new pipeline: samples by output."""
    batch_size = options.pop("batch_size", len(next(iter(inputs.values()))))
    pipeline = build(graph, list(inputs), batch_size, **options)
    return [to_samples(output) for output in feed(pipeline, inputs)]


def run_files(files: Sequence[bytes], *, options: Any = None, **parameters: Any) -> list[Samples]:
    """fn.endcap.preprocess of files: images, geometry, status."""
    encoded = [as_bytes(file) for file in files]
    return run(
        lambda encoded: fn.endcap.preprocess(encoded, **parameters),
        {"encoded": encoded},
        **(options or {}),
    )
