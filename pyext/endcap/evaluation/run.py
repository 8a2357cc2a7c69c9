"""Evaluation of a served model and of what it is compared with."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from endcap.client import DetectionClient, Task
from endcap.client.options import Protocol
from endcap.errors import InvalidArgumentError
from endcap.evaluation import ShowProgress, import_package
from endcap.evaluation.annotations import (
    Dataset,
    Failure,
    Predictions,
    Row,
    load_dataset,
    load_predictions,
)
from endcap.evaluation.categories import ClassMap, match_categories
from endcap.evaluation.coco import Evaluation, broken_limits, measure
from endcap.evaluation.reference import Reference, open_reference, predict_reference
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.models import repository_with
from endcap.triton.ensemble import POSTPROCESS_BACKEND

_IMAGES_AT_ONCE = 256  # whose results are held at once


def _predict_served(
    client: DetectionClient,
    dataset: Dataset,
    classes: ClassMap,
    *,
    on_image: Callable[[], None],
) -> Predictions:
    """Send every image to the server and return its detections; `on_image` follows each image."""
    rows: list[Row] = []
    failures: list[Failure] = []
    images = iter(dataset.images.items())
    while part := dict(itertools.islice(images, _IMAGES_AT_ONCE)):
        results = client.detect(list(part.values()), on_result=lambda _: on_image())
        for image_id, result in zip(part, results, strict=True):
            if result.ok:
                found = result.detections
                rows += classes.as_rows(image_id, found.boxes, found.scores, found.class_ids)
            else:
                error = result.error or "no reason"
                failures.append(Failure(str(part[image_id]), "server", result.status, error))
    return Predictions(rows, tuple(failures))


# Below this a server's threshold takes next to nothing off the precision-recall curve.
_LOW_SCORE = 0.01
LOWEST_THRESHOLD = 0.001  # at which a model is measured
_DEFAULT_URL = "127.0.0.1"
_NO_CLASSIFIERS = (
    "COCO's metrics are of detections, and this model returns classes; name a detector with "
    "--model, or look at single images with `endcap infer --compare`"
)
_NO_ROTATED_BOXES = (
    "COCO's metrics are of axis-aligned boxes, and this model's are rotated by detection_angles "
    "(head yolov8_obb); name another detector with --model"
)


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """What to measure: the options of `endcap evaluate` under their names.

    With url the repository only gives the reference's parameters. Of reference and predictions at
    most one is given.
    """

    images: Path
    annotations: Path
    limit: int | None = None
    url: str | None = None
    repository: Path | None = None
    protocol: Protocol | None = None
    model: str = "detect"
    timeout_s: float = 30.0
    concurrency: int = 4
    reference: Path | None = None
    predictions: Path | None = None
    score_threshold: float = LOWEST_THRESHOLD
    max_difference: float | None = None
    min_map50: float | None = None


def run(
    plan: EvaluationPlan,
    *,
    progress: ShowProgress,
    on_dataset: Callable[[Dataset], None],
    on_served: Callable[[Predictions], None],
    installing: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Carry out a plan and return its figures.

    Args:
        plan: What to measure, and the limits.
        progress: Shows the progress of a step.
        on_dataset: Takes the images and annotations before anything else is done with them.
        on_served: Takes the server's detections as soon as all are there.
        installing: Is called with a message when a server is installed, where there is none.

    Raises:
        EndcapError, OSError: Before a request is sent to the server, where possible.
    """
    _check(plan)
    import_package("pycocotools.coco")
    dataset = load_dataset(plan.images, plan.annotations, limit=plan.limit)
    on_dataset(dataset)
    reference = _load_reference(plan)
    other = load_predictions(plan.predictions, dataset) if plan.predictions else None
    with (
        _served_at(plan, installing) as url,
        DetectionClient(
            url,
            protocol=plan.protocol,
            model=plan.model,
            timeout_s=plan.timeout_s,
            concurrency=plan.concurrency,
            extras=False,
        ) as client,
    ):
        if client.task is not Task.detection:
            raise InvalidArgumentError(_NO_CLASSIFIERS)
        if "detection_angles" in client.outputs:
            raise InvalidArgumentError(_NO_ROTATED_BOXES)
        classes = match_categories(
            dataset.categories,
            labels=client.labels,
            num_classes=reference.num_classes if reference else None,
        )
        with progress("served", len(dataset.images)) as advance:
            served = _predict_served(client, dataset, classes, on_image=advance)
    on_served(served)
    if reference is not None:
        with progress("reference", len(dataset.images)) as advance:
            other = predict_reference(reference, dataset, classes, on_image=advance)
    accuracy = measure(dataset, served, classes.category_ids)
    compared = measure(dataset, other, classes.category_ids) if other is not None else None
    return Evaluation(
        served=accuracy,
        other=compared,
        compared_with=str(plan.reference or plan.predictions) if compared else None,
        images=len(dataset.images),
        detections=len(served.rows),
        lowest_score=served.lowest_score,
        failures=served.failures + (other.failures if other is not None else ()),
        notes=(
            *filter(None, [classes.note]),
            *(_notes(served) if plan.repository is None or plan.url else ()),
        ),
        problems=broken_limits(
            accuracy, compared, max_difference=plan.max_difference, min_map50=plan.min_map50
        ),
    )


def _check(plan: EvaluationPlan) -> None:
    if plan.reference is not None and plan.predictions is not None:
        raise InvalidArgumentError("--reference and --predictions exclude each other; give one")
    if plan.max_difference is not None and plan.reference is None and plan.predictions is None:
        raise InvalidArgumentError(
            "--max-difference takes something to compare with: give --reference or --predictions"
        )
    if plan.reference is not None and plan.repository is None:
        raise InvalidArgumentError(
            "--reference needs the parameters of the served model: give --repository, which starts "
            "no server where --url is given"
        )


def _load_reference(plan: EvaluationPlan) -> Reference | None:
    if plan.reference is None or plan.repository is None:
        return None
    reference = open_reference(
        plan.repository,
        plan.model,
        network=plan.reference,
        score_threshold=plan.score_threshold,
    )
    if reference.is_classifier:
        raise InvalidArgumentError(_NO_CLASSIFIERS)
    return reference


@contextlib.contextmanager
def _served_at(plan: EvaluationPlan, installing: Callable[[str], None]) -> Iterator[str]:
    """Yield the URL of the server to measure, which runs inside the block."""
    if plan.repository is None or plan.url:
        yield plan.url or _DEFAULT_URL
        return
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    lowered = {"score_threshold": repr(plan.score_threshold)}
    with (
        repository_with(
            plan.repository, backend=POSTPROCESS_BACKEND, parameters=lowered
        ) as repository,
        TritonServer(repository, settings, progress=installing) as server,
    ):
        yield server.http_url if plan.protocol == "http" else server.grpc_url


def _notes(served: Predictions) -> tuple[str, ...]:
    lowest = served.lowest_score
    if lowest is None:
        return ("no detection came back at all",)
    if lowest < _LOW_SCORE:
        return ()
    return (
        f"no detection below a score of {lowest:.3f} came back, so the server's score_threshold "
        "cuts the precision-recall curve and the figures are lower than the model's; set "
        f"score_threshold to {LOWEST_THRESHOLD:g} in its {POSTPROCESS_BACKEND} "
        "model, or measure with --repository",
    )
