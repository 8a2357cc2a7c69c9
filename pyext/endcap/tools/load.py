"""Load on a server: a closed loop of requests, their latency, and the server's times."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from endcap.client import ClientArguments, ClientError, DetectionClient, RequestError
from endcap.client.concurrency import run
from endcap.client.connection import Connection, read_items

_TICK_S = 0.1
_SHOWN_EVERY_S = 5.0

Statistics = Mapping[str, Mapping[str, int]]


class ModelTime(NamedTuple):
    """Mean times in the server of a model's requests, in ms; transfer is of inputs and outputs."""

    model: str
    requests: int
    queue: float
    transfer: float
    compute: float
    total: float


async def read_statistics(client: DetectionClient) -> Statistics:
    """Return Triton's numbers of a model and its composing models; nothing if it permits none."""
    try:
        async with Connection(client.address, client.options) as connection:
            config = await connection.request("get_model_config", model_name=client.model)
            statistics = await connection.request("get_inference_statistics")
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        names = [client.model, *(str(step["model_name"]) for step in steps)]
        sums: dict[str, Counter[str]] = {name: Counter() for name in names}
        for version in read_items(statistics, "model_stats"):
            for kind, numbers in version.get("inference_stats", {}).items():
                values = {f"{kind} {name}": int(value) for name, value in numbers.items()}
                sums.get(version["name"], Counter()).update(values)
    except (RequestError, ClientError):
        return {}
    return sums


def mean_times(before: Statistics, now: Statistics) -> list[ModelTime]:
    """Return the times of the requests between two readings, of models that had requests."""
    times = []
    for model, counts in now.items() if before else ():
        new = {name: value - before[model].get(name, 0) for name, value in counts.items()}
        if requests := new.get("success count", 0):
            ms = {name: value / requests / 1e6 for name, value in new.items()}
            transfer = ms["compute_input ns"] + ms["compute_output ns"]
            parts = (ms["queue ns"], transfer, ms["compute_infer ns"], ms["success ns"])
            times.append(ModelTime(model, requests, *parts))
    return times


class Request(NamedTuple):
    """A request that ended, with its good images and its failed ones by status."""

    begin_s: float
    end_s: float
    images: int
    failures: Mapping[str, int]


@dataclass(frozen=True)
class Level:
    """Result of the requests that ended in a window.

    Attributes:
        requests: Those with at least one image without an error, to which `latency_ms` applies.
        images_per_s: Images without an error.
        latency_ms: Mean, p50, p90, p99, min and max; empty without such requests.
        server_ms: Of the model and then of its composing models.
        concurrency: Requests in flight at once.
    """

    requests: int
    images_per_s: float
    latency_ms: Mapping[str, float]
    failures: Mapping[str, int]
    server_ms: Sequence[ModelTime] = ()
    concurrency: int = 1


def _summarize_latency(times: Sequence[float]) -> dict[str, float]:
    """Return mean, p50, p90, p99 (interpolated linearly), min and max; nothing for no times."""
    if not times:
        return {}
    p50, p90, p99 = (float(each) for each in np.percentile(times, (50, 90, 99)))
    mean = float(np.mean(times))
    return {"mean": mean, "p50": p50, "p90": p90, "p99": p99, "min": min(times), "max": max(times)}


def summarize(requests: Iterable[Request], begin_s: float, end_s: float) -> Level:
    """Return the result of a window, which includes its begin and not its end."""
    ended = [each for each in requests if begin_s <= each.end_s < end_s]
    times = [(each.end_s - each.begin_s) * 1e3 for each in ended if each.images]
    failures = sum((Counter(each.failures) for each in ended), Counter[str]())
    images_per_s = sum(each.images for each in ended) / (end_s - begin_s)
    return Level(len(times), images_per_s, _summarize_latency(times), failures)


def measure_level(
    arguments: ClientArguments,
    images: Sequence[bytes],
    *,
    warmup_s: float,
    duration_s: float,
    progress: Callable[[str], None],
) -> Level:
    """Send requests for a warm-up and a window, and return the result of the window.

    Each sender sends the images in turn, the next request after the last response.

    Args:
        arguments: Of the client; its concurrency is the number of senders.
        images: Encoded files.
        warmup_s: Seconds before the window.
        duration_s: Seconds of the window.
        progress: Is called with the state of the work every few seconds.

    Raises:
        ClientError: The server is not available, or cannot take these requests.
    """
    requests: list[Request] = []
    ended, lock = threading.Event(), threading.Lock()
    with (
        DetectionClient.from_arguments(arguments) as client,
        ThreadPoolExecutor(arguments.concurrency) as threads,
    ):
        start_s = shown_s = time.perf_counter()
        begin_s = start_s + warmup_s
        end_s = begin_s + duration_s
        endless = itertools.cycle(images)

        def send() -> None:
            while not ended.is_set():
                with lock:
                    batch = list(itertools.islice(endless, arguments.batch))
                sent_s = time.perf_counter()
                results = client.detect(batch)
                failures = Counter(each.status for each in results if not each.ok)
                good = len(results) - failures.total()
                requests.append(Request(sent_s, time.perf_counter(), good, failures))

        def wait_until(when_s: float) -> None:
            nonlocal shown_s
            while (now := time.perf_counter()) < when_s:
                time.sleep(min(when_s - now, _TICK_S))
                for sender in senders:
                    if sender.done():
                        sender.result()  # raises what ended it
                if now - shown_s >= _SHOWN_EVERY_S:
                    shown_s = now
                    progress(f"{now - start_s:.0f} s, {len(requests)} requests")

        senders = [threads.submit(send) for _ in range(arguments.concurrency)]
        try:
            wait_until(begin_s)
            before = run(read_statistics(client))
            wait_until(end_s)
            server_ms = mean_times(before, run(read_statistics(client)))
        finally:
            ended.set()
    level = summarize(requests, begin_s, end_s)
    return replace(level, server_ms=server_ms, concurrency=arguments.concurrency)
