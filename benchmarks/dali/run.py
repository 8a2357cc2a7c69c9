"""Times of the pipelines: single images on one thread, batches, a GPU; and the JSON documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import distributions
from typing import Any

import numpy as np

import endcap
from benchmarks import images, machine, paths
from benchmarks.dali import differences, pipelines
from benchmarks.dali.pipelines import (
    CPU_PIPELINES,
    ENDCAP,
    GPU_PIPELINES,
    Arrays,
    Encoded,
    Pipeline,
)
from benchmarks.images import Photograph
from benchmarks.preprocess import SIZE
from benchmarks.preprocess.entries import compare
from benchmarks.preprocess.one_thread import ratios_to
from benchmarks.timing import Budget, Case, Ready, Row, comparison, cpu_count, cpus, load

_NO_PSNR_DB = -np.inf  # the bar is the way's own


class NotVerifiedError(Exception):
    """The results differ by more than the pipeline may; the message says where."""


def expected(encoded: Encoded) -> Arrays:
    """Return the tensors of endcap.preprocess on the CPU, on its own threads."""
    result = endcap.Preprocessor(size=SIZE)(encoded)
    return np.asarray(result.images), result.geometry, result.status


def verify(pipeline: Pipeline, found: Arrays, wanted: Arrays) -> str:
    """In a few words how near a batch is. Raises NotVerifiedError."""
    images, geometry, status = found
    if status.tolist() != wanted[2].tolist():
        raise NotVerifiedError(f"status is {status.tolist()}, not {wanted[2].tolist()}")
    worst = np.abs(geometry - wanted[1])[:, : pipeline.geometry_values].max()
    if worst != 0:
        raise NotVerifiedError(f"geometry differs by {worst:.3g}")
    if np.array_equal(images, wanted[0]):
        return "equal, bit for bit"
    agreements = [
        compare(mine, theirs, _NO_PSNR_DB) for mine, theirs in zip(images, wanted[0], strict=True)
    ]
    farthest = max(agreements, key=lambda each: (each.largest_step, each.differing))
    if pipeline.steps == 0 or farthest.largest_step > pipeline.steps:
        raise NotVerifiedError(f"{farthest.text}; {pipeline.steps} steps are allowed")
    return farthest.text


THREADS = (1, 2)


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    images: tuple[str, ...]
    per_image: Budget
    batch_size: int
    per_batch: Budget


COMPLETE = Plan(tuple(images.RECIPES), Budget(3.0, fewest=7), 24, Budget(15.0, fewest=7))
QUICK = Plan(images.QUICK, Budget(0.3, fewest=3), 4, Budget(1.0, fewest=3))


def time_steps(plan: Plan) -> int:
    """How often `run` will say that something is done."""
    return len(plan.images) + len(THREADS) + 1


def run(plan: Plan, pictures: Sequence[Photograph], done: Callable[[str], None]) -> dict[str, Any]:
    """Verify and times everything; `done` is called after each step."""
    latency = _latency(plan, pictures, done)
    chosen = [pictures[index % len(pictures)] for index in range(plan.batch_size)]
    throughput = []
    for threads in THREADS:
        throughput.append(_throughput(CPU_PIPELINES, chosen, threads, plan.per_batch))
        done(f"threads: {threads}")
    gpu = _throughput(GPU_PIPELINES, chosen, cpu_count(), plan.per_batch)
    done("GPU")
    return {
        "batch": [picture.name for picture in chosen],
        "ways": {pipeline.key: pipeline.how for pipeline in (*CPU_PIPELINES, *GPU_PIPELINES)},
        "latency": latency,
        "throughput": throughput,
        "gpu": gpu,
    }


def _latency(
    plan: Plan, pictures: Sequence[Photograph], done: Callable[[str], None]
) -> dict[str, Any]:
    """One picture at a time, each pipeline on one thread, the process on one CPU."""
    results, tables = [], []
    with cpus(1):
        ready = {pipeline: load(partial(_make, pipeline, 1, 1)) for pipeline in CPU_PIPELINES}
        for picture in pictures:
            encoded = [_bytes(picture)]
            entries = {
                pipeline.key: runner
                if isinstance(runner, Row)
                else _verified(pipeline, runner, encoded)
                for pipeline, runner in ready.items()
            }
            rows = comparison(entries, ENDCAP.key, plan.per_image)
            tables.append(rows)
            results.append(
                {
                    "name": picture.name,
                    "width": picture.width,
                    "height": picture.height,
                    "encoded_bytes": len(encoded[0]),
                    "rows": {name: asdict(row) for name, row in rows.items()},
                }
            )
            done(picture.name)
    return {"images": results, "ratios": ratios_to(ENDCAP.key, tables)}


def _throughput(
    compared: Sequence[Pipeline], chosen: Sequence[Photograph], threads: int, budget: Budget
) -> dict[str, Any]:
    """One batch, on so many threads of each pipeline and as many CPUs."""
    encoded = [_bytes(picture) for picture in chosen]
    if threads > cpu_count():
        few = Row("not measured", f"{threads} threads need as many CPUs; there are {cpu_count()}")
        rows = dict.fromkeys((pipeline.key for pipeline in compared), few)
    else:
        with cpus(threads):
            entries = {pipeline.key: _entry(pipeline, encoded, threads) for pipeline in compared}
            rows = comparison(entries, compared[0].key, budget)
    rates = {
        name: 1e3 * len(chosen) / row.timing.median_ms
        for name, row in rows.items()
        if row.timing is not None
    }
    return {
        "threads": threads,
        "rows": {name: asdict(row) for name, row in rows.items()},
        "images_per_second": rates,
    }


def _entry(pipeline: Pipeline, encoded: Encoded, threads: int) -> Ready | Row:
    runner = load(partial(_make, pipeline, len(encoded), threads))
    return runner if isinstance(runner, Row) else _verified(pipeline, runner, encoded)


def _make(pipeline: Pipeline, batch_size: int, threads: int) -> pipelines.Runner | Row:
    """Return the runner, or the row of a pipeline that this machine does not have."""
    if pipeline.device == "gpu" and not endcap.cuda_state().available:
        return Row("not measured", "it needs a GPU; `endcap doctor` says what is missing")
    try:
        return pipelines.make(pipeline, batch_size, threads)
    except endcap.EndcapError as error:
        return Row("not available", str(error))


def _verified(pipeline: Pipeline, runner: pipelines.Runner, encoded: Encoded) -> Ready | Row:
    try:
        note = verify(pipeline, runner.arrays(encoded), expected(encoded))
    except (NotVerifiedError, ValueError) as error:
        return Row("not verified", str(error))
    return Ready(Case(run=runner, prepare=lambda: encoded), note)


def _bytes(picture: Photograph) -> Any:
    return np.frombuffer(picture.encoded, np.uint8)


Json = dict[str, Any]


class DaliMissingError(Exception):
    """DALI, or endcap's operators in it, cannot be had; the message says what to do."""


def steps(plan: Plan, with_times: bool) -> int:
    """How often `done` will hear of something."""
    return differences.steps() + (time_steps(plan) if with_times else 0)


def times(plan: Plan, done: Callable[[str], None]) -> Json:
    """Measure the pipelines. Raises SourceMissingError where a photograph's package is missing."""
    about = {**machine.describe(), "dali": dali_version()}
    pictures = [images.make(name, paths.IMAGES) for name in plan.images]
    return {"machine": about, "dali": run(plan, pictures, done)}


def parity(plan: Plan, done: Callable[[str], None]) -> Json:
    """Measure the differences.

    Raises SourceMissingError, and DaliMissingError where there is nothing to compare.
    """
    if dali_version() == "not installed":
        raise DaliMissingError("DALI is not installed: `make bench-dali` installs it")
    about = {**machine.describe(), "dali": dali_version()}
    pictures = [images.make(name, paths.IMAGES) for name in plan.images]
    try:
        return {"machine": about, "dali_parity": differences.run(pictures, done)}
    except endcap.EndcapError as error:
        raise DaliMissingError(str(error)) from error


def dali_version() -> str:
    """Of the package, which is named after a CUDA version; "not installed" without one."""
    for found in distributions():
        if found.name.startswith("nvidia-dali-cuda"):
            return f"{found.name} {found.version}"
    return "not installed"
