"""A run over a data set: shards to actors of Ray Data, and their results to files."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from endcap.batch.cluster import connected
from endcap.batch.detectors import Detector, LocalDetector, ServedDetector
from endcap.batch.errors import BatchError, import_package
from endcap.batch.inputs import EncodedImage, Listing, list_images, read_shard
from endcap.batch.job import (
    Job,
    counted_attempt,
    forget_attempts,
    identity_of,
    load_model,
    open_job,
    save_model,
    shard_of,
    shards_table,
)
from endcap.batch.pipeline import PipelineSpec
from endcap.batch.results import count_statuses, finished_parts, write_coco, write_part
from endcap.batch.rows import ImageRow
from endcap.batch.storage import Storage
from endcap.batch.transforms import unreadable
from endcap.detections import Task
from endcap.errors import EndcapError, InvalidArgumentError


@dataclass(frozen=True)
class ServedModel:
    """A model of running servers.

    Attributes:
        urls: Their addresses, HOST:PORT.
        model: The ensemble's name.
    """

    urls: tuple[str, ...]
    model: str = "detect"


@dataclass(frozen=True)
class BatchPlan:
    """What a run shall do.

    Attributes:
        inputs: The data set, as for `list_images`.
        detector: What detects.
        output: The folder of results, or its URL.
        column: Of Parquet files, that holds the images.
        allow_any_path: Whether cells of Parquet files may name files outside the file's folder.
        batch: The most images in a batch of the network, or in flight to a server.
        workers: Actors; by default as many as the cluster has CPUs, or GPUs, for.
        cpus: Of each actor.
        gpus: Of each actor; then all stages run on a GPU.
        coco: Whether to write the detections as COCO JSON, too.
        address: Of a Ray cluster; None starts one on this machine for the run.
    """

    inputs: tuple[str, ...]
    detector: PipelineSpec | ServedModel
    output: str
    column: str | None = None
    allow_any_path: bool = False
    batch: int = 16
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0
    coco: bool = False
    address: str | None = None


@dataclass
class BatchReport:
    """What a run has done.

    Attributes:
        statuses: How many images have each status, those of earlier runs among them.
        images: How many of them this run has processed.
        seconds: How long that took.
        output: The folder of results.
        coco: The file in COCO's format, where it was wanted.
        skipped: Files of the data set that are no images, by suffix.
    """

    output: str
    statuses: Counter[str] = field(default_factory=Counter)
    images: int = 0
    seconds: float = 0.0
    coco: str | None = None
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        """The number of images without a result."""
        return sum(number for status, number in self.statuses.items() if status != "ok")


@dataclass(frozen=True)
class BatchProgress:
    """How far a run is: images that are done, of how many (None: not known), by status."""

    done: int
    total: int | None
    statuses: Counter[str]


def run_batch(
    plan: BatchPlan,
    *,
    on_job: Callable[[Job], None] = lambda job: None,
    on_progress: Callable[[BatchProgress], None] = lambda progress: None,
) -> BatchReport:
    """Process a data set; continue the run that has begun in the output folder, if any.

    Each shard's results are one file, written whole: a run that ends early has lost nothing but
    the shards it was at, and a lost process or machine costs no more than its shards.

    Args:
        plan: What to do.
        on_job: Called when it is known what there is to do.
        on_progress: Called after each shard.

    Raises:
        InvalidArgumentError: Inputs without images, or an output folder of other content.
        BatchError: Ray, the network or a file system failed; run again to continue.
    """
    detector = plan.detector
    what = detector.model if isinstance(detector, ServedModel) else detector
    listings: list[Listing] = []

    def list_inputs() -> Listing:
        listings.append(list_images(plan.inputs, column=plan.column))
        return listings[0]

    task = _check_detector(plan)
    if plan.coco and task is Task.classification:
        raise InvalidArgumentError(
            "the model gives classes of whole images, and COCO's format has boxes; leave out coco"
        )
    job = open_job(plan.output, identity_of(what, plan.inputs), list_inputs)
    if isinstance(detector, PipelineSpec) and job.waiting:
        save_model(job.output, detector)
    on_job(job)
    report = BatchReport(
        job.output.url(job.output.path), count_statuses(job.output, sorted(job.finished))
    )
    if listings:
        report.skipped = listings[0].skipped
    before = report.statuses.total()
    start = time.monotonic()
    if job.waiting:
        forget_attempts(job.output)
        with connected(plan.address) as ray:
            for statuses in _process(ray, plan, job):
                report.statuses.update(statuses)
                done = report.statuses.total()
                on_progress(BatchProgress(done, job.count, report.statuses))
        _check_finished(job)
    report.images, report.seconds = report.statuses.total() - before, time.monotonic() - start
    if plan.coco:
        labels = () if isinstance(detector, ServedModel) else detector.labels
        report.coco = write_coco(job.output, range(len(job.shards)), labels)
    return report


def _check_detector(plan: BatchPlan) -> Task:
    """Return the task of what detects, after it was tried here where that is possible."""
    if isinstance(plan.detector, PipelineSpec) and plan.gpus:
        return plan.detector.task  # this machine may have no GPU
    return _make_detector(plan.detector, _settings(plan)).task


def _check_finished(job: Job) -> None:
    """Raise BatchError where files of results are missing: other machines wrote them elsewhere."""
    missing = set(range(len(job.shards))) - finished_parts(job.output)
    if missing:
        raise BatchError(
            f"{len(missing)} of {len(job.shards)} files of results are not in "
            f"{job.output.url(job.output.path)}: other machines have written them to folders of "
            "their own; give --output a folder that all machines share, such as an s3:// URL"
        )


@dataclass(frozen=True)
class _WorkerSettings:
    """What an actor is given; the network, which may be large, it finds beside the results."""

    output: str
    batch: int
    allow_any_path: bool
    served: ServedModel | None
    device: str
    threads: int


def _settings(plan: BatchPlan) -> _WorkerSettings:
    served = plan.detector if isinstance(plan.detector, ServedModel) else None
    device = "cuda" if plan.gpus else "cpu"
    threads = max(1, int(plan.cpus))
    return _WorkerSettings(plan.output, plan.batch, plan.allow_any_path, served, device, threads)


def _make_detector(what: PipelineSpec | ServedModel, settings: _WorkerSettings) -> Detector:
    if isinstance(what, ServedModel):
        return ServedDetector(what.urls, model=what.model, concurrency=settings.batch)
    return LocalDetector(what, device=settings.device, threads=settings.threads)


class _ShardWorker:
    """An actor: reads the images of shards, detects, and writes files of results."""

    def __init__(self, settings: _WorkerSettings) -> None:
        self._output = Storage(settings.output)
        detector = settings.served or load_model(self._output)
        self._detector = _make_detector(detector, settings)
        self._batch = settings.batch
        self._allow_any_path = settings.allow_any_path

    def __call__(self, table: Any) -> Any:
        """Process the shards of a table; return how many of their images had each status."""
        pa = import_package("pyarrow")
        counts = []
        for row in table.to_pylist():
            shard, number = shard_of(row), row["number"]
            with counted_attempt(self._output, number, shard):
                images = read_shard(
                    shard,
                    max_bytes=self._detector.max_bytes,
                    allow_any_path=self._allow_any_path,
                )
                batches = (self._detect(batch) for batch in _batches(images, self._batch))
                statuses = write_part(self._output, number, batches, self._detector.task)
            counts.append(json.dumps(statuses))
        return pa.table({"number": table["number"], "statuses": counts})

    def _detect(self, images: Sequence[tuple[EncodedImage, float]]) -> list[ImageRow]:
        read = [(each.path, each.data) for each, _ in images if each.data is not None]
        rows = iter(self._detector.detect(read))
        results = []
        for image, seconds in images:
            if image.data is None:
                row = unreadable(image.path, image.error or "", self._detector.task)
            else:
                row = next(rows)
            times = {"read": seconds, **(row.seconds or {})}
            results.append(ImageRow(row.result, row.width, row.height, times))
        return results


def _batches(
    images: Iterator[EncodedImage], size: int
) -> Iterator[list[tuple[EncodedImage, float]]]:
    """Yield images in batches, each with the seconds that it was waited for."""
    batch: list[tuple[EncodedImage, float]] = []
    start = time.perf_counter()
    for image in images:
        batch.append((image, time.perf_counter() - start))
        if len(batch) == size:
            yield batch
            batch = []
        start = time.perf_counter()
    if batch:
        yield batch


def _process(ray: Any, plan: BatchPlan, job: Job) -> Iterator[Counter[str]]:
    """Yield how many images had each status, for each shard as it is done."""
    data = import_package("ray.data")
    waiting = job.waiting
    workers = plan.workers or _places(ray, plan)
    table = shards_table([job.shards[number] for number in waiting])
    table = table.append_column("number", [waiting])
    blocks = [table.slice(row, 1) for row in range(table.num_rows)]
    results = data.from_blocks(blocks).map_batches(
        _ShardWorker,
        fn_constructor_kwargs={"settings": _settings(plan)},
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=plan.cpus,
        num_gpus=plan.gpus or None,
        compute=data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(waiting))),
    )
    try:
        for batch in results.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for statuses in batch["statuses"].to_pylist():
                yield Counter(json.loads(statuses))
    except (ray.exceptions.RayError, ValueError) as error:
        raise BatchError(
            f"{_reason(error)}; what is done is kept, and the same command continues"
        ) from error


def _reason(error: BaseException) -> str:
    """Return the message of the error in an actor that ended a run."""
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "cause", None)
        if isinstance(cause, EndcapError):
            return str(cause)
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    return " ".join(str(error).split())


def _places(ray: Any, plan: BatchPlan) -> int:
    """Return how many actors the cluster has room for."""
    resources = ray.cluster_resources()
    if plan.gpus:
        return max(1, int(resources.get("GPU", 0) / plan.gpus))
    return max(1, int(resources.get("CPU", 1) / plan.cpus)) if plan.cpus else 1
