"""A run over a data set: shards to actors of Ray Data, and what they return to files."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import secrets
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from endcap.batch.detectors import ServedDetector, detect_images
from endcap.batch.inputs import Shard, list_images, read_shard
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.results import PATH, STATUS, Results
from endcap.batch.storage import BatchError, Storage, import_package
from endcap.errors import EndcapError, InvalidArgumentError

# Ray repeats a shard whose process was lost, forever if one of its images ends the process.
_MAX_ATTEMPTS = 5
# Shards are lists of paths, and what actors return is counts: neither needs much.
_OBJECT_STORE_BYTES = 128 << 20
_CONNECT_S = 10.0
_TIMED_OUT = "timed out during startup"


@dataclass(frozen=True)
class ServedModel:
    """A model of running servers.

    Attributes:
        urls: Their addresses, HOST:PORT.
        model: The ensemble's name.
    """

    urls: tuple[str, ...]
    model: str = "detect"

    @property
    def identity(self) -> str:
        """What tells this model from another one."""
        return f"served {self.model}"


@dataclass(frozen=True)
class BatchPlan:
    """A run and its settings.

    Attributes:
        inputs: Paths or URLs of folders (with all below), glob patterns, image files, and Parquet
            files with a column of bytes.
        detector: The model.
        output: The folder of results, or its URL.
        column: The column of Parquet files that holds the images.
        batch: The most images in a batch of the network, or in flight to a server.
        workers: Number of actors; by default as many as the cluster has CPUs, or GPUs, for.
        cpus: CPUs of each actor.
        gpus: GPUs of each actor; above 0 all stages run on a GPU.
        address: Address of a Ray cluster; None starts one on this machine for the run.
    """

    inputs: tuple[str, ...]
    detector: PipelineSpec | ServedModel
    output: str
    column: str | None = None
    batch: int = 16
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0
    address: str | None = None


@dataclass
class BatchReport:
    """The result of a run, or what it has done so far.

    Attributes:
        output: The folder of results.
        statuses: The number of images by status, including those of earlier runs.
        images: The number of images that this run has processed.
        seconds: The time that it took.
        skipped: Files of the data set that are not images, by suffix.
        total: The number of all images.
    """

    output: str
    statuses: Counter[str] = field(default_factory=Counter)
    images: int = 0
    seconds: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)
    total: int = 0

    @property
    def failed(self) -> int:
        """The number of images without a result."""
        return sum(number for status, number in self.statuses.items() if status != "ok")


def run_batch(
    plan: BatchPlan, *, on_progress: Callable[[BatchReport], None] = lambda report: None
) -> BatchReport:
    """Process the images of a data set that have no row in the output folder yet.

    Results are written in whole files, some for each part of the data set: a run that ends early
    costs no more than the parts that were in work.

    Args:
        plan: The run.
        on_progress: Called with the report so far before the first shard, and after each.

    Raises:
        InvalidArgumentError: Inputs without images, or an output folder of other content.
        BatchError: Ray, the network or a file system failed; run again to continue.
    """
    detector, start = plan.detector, time.monotonic()
    results = Results(plan.output, detector.identity)
    _refuse_output_in_inputs(results.storage, plan.inputs)
    if not (isinstance(detector, PipelineSpec) and plan.gpus):  # there may be no GPU here
        _make_detector(detector, plan)
    report = BatchReport(results.storage.url(results.storage.path))
    done = set()
    for row in results.read([PATH, STATUS]):
        report.statuses[row[STATUS]] += 1
        done.add(row[PATH])
    before = report.statuses.total()
    listing = list_images(plan.inputs, column=plan.column, done=done)
    report.skipped = listing.skipped
    report.total = listing.done + sum(shard.count for shard in listing.shards)
    on_progress(report)
    if listing.shards:
        results.storage.filesystem.create_dir(results.storage.path, recursive=True)
        with connect_to_ray(plan.address) as ray:
            for table in _process(ray, plan, listing.shards, done):
                results.write_part(table)
                report.statuses.update(table[STATUS].to_pylist())
                report.images = report.statuses.total() - before
                report.seconds = time.monotonic() - start
                on_progress(report)
    return report


def _refuse_output_in_inputs(output: Storage, inputs: Sequence[str]) -> None:
    """Raise InvalidArgumentError for a folder of results that a later run would read as images."""
    for location in inputs:
        storage = Storage(location)
        root = storage.path.rstrip("/")
        is_same = (storage.scheme, storage.is_local) == (output.scheme, output.is_local)
        if is_same and f"{output.path.rstrip('/')}/".startswith(f"{root}/"):
            raise InvalidArgumentError(
                f"{output.url(output.path)} lies in {location}, which is read with all below it; "
                "give --output a folder elsewhere"
            )


def _make_detector(model: PipelineSpec | ServedModel, plan: BatchPlan) -> Pipeline | ServedDetector:
    if isinstance(model, ServedModel):
        return ServedDetector(model.urls, model=model.model, concurrency=plan.batch)
    device = "cuda" if plan.gpus else "cpu"
    return Pipeline(model, device=device, threads=max(1, int(plan.cpus)))


class _Attempts:
    """An actor that counts how often each shard was begun."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        """Return how often a shard was begun, this time included."""
        self._begun[number] += 1
        return self._begun[number]


class _ShardWorker:
    """An actor that reads the images of shards, and detects."""

    def __init__(self, plan: BatchPlan, shared: Any, attempts: Any) -> None:
        self._ray, self._plan, self._attempts = import_package("ray"), plan, attempts
        model, self._done = self._ray.get(shared)
        self._detector = _make_detector(model, plan)

    def __call__(self, table: Any) -> Iterator[Any]:
        """Yield the results of the shard of a row; images that are done are left out."""
        (row,) = table.to_pylist()
        shard = Shard(**json.loads(row["shard"]))
        attempt = self._ray.get(self._attempts.begin.remote(row["number"]))
        if attempt > _MAX_ATTEMPTS:
            raise BatchError(
                f"the process of part {row['number']} was lost {attempt - 1} times; an image that "
                f"ends it may be one of {shard.paths[0]} to {shard.paths[-1]}, or memory is too "
                "small: give fewer --workers"
            )
        images = (image for image in read_shard(shard) if image.path not in self._done)
        while batch := list(itertools.islice(images, self._plan.batch)):
            yield detect_images(self._detector, batch)


def _process(
    ray: Any, plan: BatchPlan, shards: Sequence[Shard], done: Collection[str]
) -> Iterator[Any]:
    """Yield the rows of each shard that is done, a pyarrow.Table."""
    data, pa = import_package("ray.data"), import_package("pyarrow")
    blocks = [
        pa.table({"number": [number], "shard": [json.dumps(asdict(shard))]})
        for number, shard in enumerate(shards)
    ]
    kind, needed = ("GPU", plan.gpus) if plan.gpus else ("CPU", plan.cpus)
    places = max(1, int(ray.cluster_resources().get(kind, 1) / needed)) if needed else 1
    attempts = ray.remote(_Attempts).options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    results = data.from_blocks(blocks).map_batches(
        _ShardWorker,
        fn_constructor_kwargs={
            "plan": replace(plan, detector=ServedModel(())),
            # These may be large: they are sent once, and not as a part of the plan.
            "shared": ray.put((plan.detector, done)),
            "attempts": attempts.remote(),
        },
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=plan.cpus,
        num_gpus=plan.gpus or None,
        compute=data.ActorPoolStrategy(
            min_size=1, max_size=min(plan.workers or places, len(blocks))
        ),
    )
    try:
        for table in results.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            if len(table):
                yield table
    except (ray.exceptions.RayError, ValueError) as error:
        raise BatchError(
            f"{_find_reason(error)}; what is done is kept, and the same command continues"
        ) from error


def _find_reason(error: BaseException) -> str:
    """Return the message of the error in an actor that ended a run."""
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "cause", None)
        if isinstance(cause, EndcapError):
            return str(cause)
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    return " ".join(str(error).split())


@contextlib.contextmanager
def connect_to_ray(address: str | None) -> Iterator[Any]:
    """Yield the module ray, connected to a cluster, with its own displays of progress off.

    A cluster that the caller is connected to is used unchanged. One that is started here ends with
    the block.

    Args:
        address: HOST:PORT of a cluster; None starts one on this machine.

    Raises:
        BatchError: Ray or its cluster is missing.
    """
    if address is None and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        # Ray listens on all interfaces of the machine, and whoever connects may run programs. It
        # reads these variables when it is loaded, and in each process that it starts.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray, data = import_package("ray"), import_package("ray.data")
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            _start_ray(ray, address)
            stack.callback(ray.shutdown)
            for name in ("ray", "ray.data"):
                logging.getLogger(name).setLevel(logging.ERROR)
        context = data.DataContext.get_current()
        for name in ("enable_progress_bars", "print_on_execution_start"):
            stack.callback(setattr, context, name, getattr(context, name))
            setattr(context, name, False)
        yield ray


def _start_ray(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {
        "address": address or "local",  # never a cluster of somebody else on this machine
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    for is_last in (False, False, True):
        try:
            host, _, port = (address or "").rpartition("//")[2].rpartition(":")
            if port.isdecimal():  # Ray would look for it for minutes
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            ray.init(**options)
            return
        except Exception as error:  # of nodes that do not start Ray raises no narrower type
            ray.shutdown()
            reason = " ".join(str(error).split())
            if address is not None:
                raise BatchError(
                    f"no Ray cluster at {address}: {reason}; give its address as HOST:PORT, or "
                    "auto on one of its machines"
                ) from error
            if is_last or _TIMED_OUT not in reason:  # a busy machine takes more than 30 seconds
                raise BatchError(
                    f"Ray cannot start on this machine: {reason}; set TMPDIR to a folder that it "
                    "can write to, or give a cluster with --address"
                ) from error
