"""Times the ways: single images on one thread, batches on one and two, and what a GPU can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

import endcap
from benchmarks import images
from benchmarks.affinity import cpu_count, cpus
from benchmarks.dali import runners
from benchmarks.dali.runners import Encoded
from benchmarks.dali.verify import NotVerifiedError, expected, verify
from benchmarks.dali.ways import CPU_WAYS, ENDCAP, GPU_WAYS, Way
from benchmarks.images import Photograph
from benchmarks.preprocess.one_thread import ratios_to
from benchmarks.rows import Ready, Row, comparison, load
from benchmarks.timing import Budget, Case

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


def steps(plan: Plan) -> int:
    """How often `run` will say that something is done."""
    return len(plan.images) + len(THREADS) + 1


def run(plan: Plan, pictures: Sequence[Photograph], done: Callable[[str], None]) -> dict[str, Any]:
    """Verify and times everything; `done` is called after each step."""
    latency = _latency(plan, pictures, done)
    chosen = [pictures[index % len(pictures)] for index in range(plan.batch_size)]
    throughput = []
    for threads in THREADS:
        throughput.append(_throughput(CPU_WAYS, chosen, threads, plan.per_batch))
        done(f"threads: {threads}")
    gpu = _throughput(GPU_WAYS, chosen, cpu_count(), plan.per_batch)
    done("GPU")
    return {
        "batch": [picture.name for picture in chosen],
        "ways": {way.key: way.how for way in (*CPU_WAYS, *GPU_WAYS)},
        "latency": latency,
        "throughput": throughput,
        "gpu": gpu,
    }


def _latency(
    plan: Plan, pictures: Sequence[Photograph], done: Callable[[str], None]
) -> dict[str, Any]:
    """One picture at a time, each way on one thread, the process on one CPU."""
    results, tables = [], []
    with cpus(1):
        ready = {way: load(partial(_make, way, 1, 1)) for way in CPU_WAYS}
        for picture in pictures:
            encoded = [_bytes(picture)]
            entries = {
                way.key: runner if isinstance(runner, Row) else _verified(way, runner, encoded)
                for way, runner in ready.items()
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
    ways: Sequence[Way], chosen: Sequence[Photograph], threads: int, budget: Budget
) -> dict[str, Any]:
    """One batch, on so many threads of each way and as many CPUs."""
    encoded = [_bytes(picture) for picture in chosen]
    if threads > cpu_count():
        few = Row("not measured", f"{threads} threads need as many CPUs; there are {cpu_count()}")
        rows = dict.fromkeys((way.key for way in ways), few)
    else:
        with cpus(threads):
            entries = {way.key: _entry(way, encoded, threads) for way in ways}
            rows = comparison(entries, ways[0].key, budget)
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


def _entry(way: Way, encoded: Encoded, threads: int) -> Ready | Row:
    runner = load(partial(_make, way, len(encoded), threads))
    return runner if isinstance(runner, Row) else _verified(way, runner, encoded)


def _make(way: Way, batch_size: int, threads: int) -> runners.Runner | Row:
    """The runner, or the row of a way that this machine does not have."""
    if way.device == "gpu" and not endcap.cuda_state().available:
        return Row("not measured", "it needs a GPU; `endcap doctor` says what is missing")
    try:
        return runners.make(way, batch_size, threads)
    except endcap.EndcapError as error:
        return Row("not available", str(error))


def _verified(way: Way, runner: runners.Runner, encoded: Encoded) -> Ready | Row:
    try:
        note = verify(way, runner.arrays(encoded), expected(encoded))
    except (NotVerifiedError, ValueError) as error:
        return Row("not verified", str(error))
    return Ready(Case(run=runner, prepare=lambda: encoded), note)


def _bytes(picture: Photograph) -> Any:
    return np.frombuffer(picture.encoded, np.uint8)
