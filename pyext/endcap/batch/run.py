"""A run over a data set: shards to actors of Ray Data, and their results to files."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from endcap.batch.cluster import connected
from endcap.batch.detectors import Detector, ServedDetector, detect_images
from endcap.batch.errors import BatchError, import_package
from endcap.batch.inputs import Shard, list_images, read_shard
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.results import PATH, STATUS, Results
from endcap.batch.storage import Storage
from endcap.detections import Task
from endcap.errors import EndcapError, InvalidArgumentError

# Ray repeats a shard whose process was lost, forever if one of its images ends the process.
_MAX_ATTEMPTS = 5


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
    """A run and its settings.

    Attributes:
        inputs: Paths or URLs of the data set, as for `read_encoded`.
        detector: The model.
        output: The folder of results, or its URL.
        column: The column of Parquet files that holds the images.
        allow_any_path: Whether cells of Parquet files may name files outside the file's folder.
        batch: The most images in a batch of the network, or in flight to a server.
        workers: Number of actors; by default as many as the cluster has CPUs, or GPUs, for.
        cpus: CPUs of each actor.
        gpus: GPUs of each actor; above 0 all stages run on a GPU.
        coco: Whether to write the detections as COCO JSON, too.
        address: Address of a Ray cluster; None starts one on this machine for the run.
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
    """The result of a run.

    Attributes:
        output: The folder of results.
        statuses: The number of images by status, including those of earlier runs.
        images: The number of images that this run has processed.
        seconds: The time that it took.
        coco: The file in COCO's format, if requested.
        skipped: Files of the data set that are not images, by suffix.
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
    """The progress of a run.

    Attributes:
        done: Images that have a row, including those of earlier runs.
        total: The number of all images; None if the data set has archives to be read.
        statuses: The number of images by status.
        parts: The number of files of results that were still to be made at the start.
    """

    done: int
    total: int | None
    statuses: Counter[str]
    parts: int


def run_batch(
    plan: BatchPlan, *, on_progress: Callable[[BatchProgress], None] = lambda progress: None
) -> BatchReport:
    """Process the images of a data set that have no row in the output folder yet.

    Each shard's results are one file, written whole: a run that ends early, or a lost process or
    machine, costs no more than the shards that were in work.

    Args:
        plan: The run.
        on_progress: Called before the first shard, and after each.

    Raises:
        InvalidArgumentError: Inputs without images, or an output folder of other content.
        BatchError: Ray, the network or a file system failed; run again to continue.
    """
    detector = plan.detector
    results = Results(plan.output, _identify(detector))
    _refuse_output_in_inputs(results.storage, plan.inputs)
    task = _check_detector(plan)
    if plan.coco and task is Task.classification:
        raise InvalidArgumentError(
            "the model gives classes of whole images, and COCO's format has boxes; leave out coco"
        )
    listing = list_images(plan.inputs, column=plan.column)
    statuses: Counter[str] = Counter()
    waiting = _find_waiting(results, listing.shards, statuses)
    report = BatchReport(
        results.storage.url(results.storage.path), statuses, skipped=listing.skipped
    )
    before = statuses.total()
    total = before + sum(shard.count for shard in waiting.values())
    unknown = any(shard.kind == "tar" for shard in waiting.values())

    def show() -> None:
        done = None if unknown else total
        on_progress(BatchProgress(statuses.total(), done, statuses, len(waiting)))

    show()
    start = time.monotonic()
    if waiting:
        results.storage.make_folder(results.storage.path)
        with connected(plan.address) as ray:
            for counts in _process(ray, plan, waiting):
                statuses.update(counts)
                show()
        missing = {shard.key for shard in waiting.values()}.difference(results.find_parts())
        if missing:
            raise BatchError(
                f"{len(missing)} of {len(waiting)} files of results are not in {report.output}: "
                "other machines have written them to folders of their own; give --output a folder "
                "that all machines share, such as an s3:// URL"
            )
    report.images, report.seconds = statuses.total() - before, time.monotonic() - start
    if plan.coco:
        report.coco = results.write_coco(getattr(detector, "labels", ()))
    return report


def _identify(detector: PipelineSpec | ServedModel) -> str:
    return detector.identity if isinstance(detector, PipelineSpec) else f"served {detector.model}"


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


def _find_waiting(
    results: Results, shards: Sequence[Shard], statuses: Counter[str]
) -> dict[int, Shard]:
    """Return what is not done of each shard, by its place; count the statuses of what is done.

    Image files are left out by their paths, archives and row groups by the names of their results.
    """
    parts = results.find_parts()
    done = set()
    for row in results.read([PATH, STATUS]):
        statuses[row[STATUS]] += 1
        done.add(row[PATH])
    waiting = {}
    for number, shard in enumerate(shards):
        rest = shard.without(done) if shard.kind == "files" else shard
        if rest.paths and rest.key not in parts:
            waiting[number] = rest
    return waiting


def _check_detector(plan: BatchPlan) -> Task:
    """Return the model's task, after a trial of the model where that is possible."""
    if isinstance(plan.detector, PipelineSpec) and plan.gpus:
        return plan.detector.task  # this machine may have no GPU
    return _make_detector(plan.detector, plan).task


def _make_detector(model: PipelineSpec | ServedModel, plan: BatchPlan) -> Detector:
    if isinstance(model, ServedModel):
        return ServedDetector(model.urls, model=model.model, concurrency=plan.batch)
    device = "cuda" if plan.gpus else "cpu"
    return Pipeline(model, device=device, threads=max(1, int(plan.cpus)))


class _Attempts:
    """An actor that counts how often each shard was begun."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, key: str) -> int:
        """Return how often a shard was begun, this time included."""
        self._begun[key] += 1
        return self._begun[key]


class _ShardWorker:
    """An actor that reads the images of shards, detects, and writes files of results."""

    def __init__(self, plan: BatchPlan, model: Any, attempts: Any) -> None:
        import ray

        # The network may be large: it is sent once, and not as a part of the plan.
        spec: PipelineSpec | ServedModel = ray.get(model)
        self._ray, self._plan, self._attempts = ray, plan, attempts
        self._detector = _make_detector(spec, plan)
        self._results = Results(plan.output, _identify(spec))

    def __call__(self, table: Any) -> Any:
        """Process the shard of a row; return the number of its images by status."""
        (row,) = table.to_pylist()
        shard = Shard(**json.loads(row["shard"]))
        attempt = self._ray.get(self._attempts.begin.remote(shard.key))
        if attempt > _MAX_ATTEMPTS:
            last = f" to {shard.paths[-1]}" if len(shard.paths) > 1 else ""
            raise BatchError(
                f"the process of part {row['number']} was lost {attempt - 1} times; an image "
                f"that ends it may be one of {shard.paths[0]}{last}, or memory is too small: "
                "give fewer --workers"
            )
        images = read_shard(
            shard, max_bytes=self._detector.max_bytes, allow_any_path=self._plan.allow_any_path
        )
        batches = iter(lambda: list(itertools.islice(images, self._plan.batch)), [])
        statuses = self._results.write_part(
            row["number"],
            shard.key,
            (detect_images(self._detector, batch) for batch in batches),
            self._detector.task,
        )
        return import_package("pyarrow").table({"statuses": [json.dumps(statuses)]})


def _process(ray: Any, plan: BatchPlan, waiting: dict[int, Shard]) -> Iterator[Counter[str]]:
    """Yield the number of images by status for each shard that is done."""
    data, pa = import_package("ray.data"), import_package("pyarrow")
    blocks = [
        pa.table({"number": [number], "shard": [json.dumps(asdict(shard))]})
        for number, shard in waiting.items()
    ]
    attempts = ray.remote(_Attempts).options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    results = data.from_blocks(blocks).map_batches(
        _ShardWorker,
        fn_constructor_kwargs={
            "plan": replace(plan, detector=ServedModel(())),
            "model": ray.put(plan.detector),
            "attempts": attempts.remote(),
        },
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=plan.cpus,
        num_gpus=plan.gpus or None,
        compute=data.ActorPoolStrategy(
            min_size=1, max_size=min(plan.workers or _count_places(ray, plan), len(blocks))
        ),
    )
    try:
        for batch in results.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for statuses in batch["statuses"].to_pylist():
                yield Counter(json.loads(statuses))
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


def _count_places(ray: Any, plan: BatchPlan) -> int:
    """Return how many actors the cluster has room for."""
    resources = ray.cluster_resources()
    if plan.gpus:
        return max(1, int(resources.get("GPU", 0) / plan.gpus))
    return max(1, int(resources.get("CPU", 1) / plan.cpus)) if plan.cpus else 1
