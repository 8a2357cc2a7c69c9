"""endcap batch: a data set of images to files of results, on Ray."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from endcap.batch import BatchPlan, BatchReport, PipelineSpec, ServedModel, run_batch
from endcap.cli.console import SOME_IMAGE_FAILED, count, printable, say
from endcap.cli.init import write_models
from endcap.cli.options import AsJson, command, in_server, panel
from endcap.errors import InvalidArgumentError
from endcap.repository.options import InitOptions

EXAMPLES = """
**Examples**

- `endcap batch photos/ --model yolo11n.onnx --output results/`

- `endcap batch 'photos/**/*.jpg' --repository models --output results/`

- `endcap batch images.parquet --column image --url 127.0.0.1:8001 --output results/`

- `endcap batch s3://bucket/photos --repository models --output s3://bucket/results
  --address ray-head:6379`

**Exit code**: 0 when all images have results, 1 when some failed (their rows say why), 2 when the
run could not be done; the same command continues it.
"""

_LINES_EVERY_S = 10.0
_in_ray = panel("Ray")
_in_model = panel("Model")


@command()
def batch(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Folders (with all below), glob patterns, image files and Parquet files; paths, "
            "or URLs such as s3://bucket/folder.",
            metavar="INPUT",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the results, a path or URL. Images with results in it are left out.",
        ),
    ],
    model: Annotated[
        str | None,
        _in_model(
            "An ONNX file, for which `endcap init` finds the settings; with --repository or --url "
            "the ensemble's name. Default: detect.",
            metavar="MODEL.onnx|NAME",
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        _in_model("Model repository, whose ensemble runs without a server, on ONNX Runtime."),
    ] = None,
    url: Annotated[
        list[str] | None,
        in_server("A running server that does the work; may be repeated.", metavar="HOST:PORT"),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column of Parquet files with the bytes of images. Default: found by its name."
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Images in a batch of the network.")
    ] = BatchPlan.batch,
    workers: Annotated[
        int | None,
        _in_ray("Processes at work. Default: as many as the cluster has room for.", min=1),
    ] = None,
    cpus: Annotated[float, _in_ray("CPUs of each process.", min=0.1)] = BatchPlan.cpus,
    gpus: Annotated[
        float, _in_ray("GPUs of each process; above 0 all stages run there.", min=0)
    ] = BatchPlan.gpus,
    address: Annotated[
        str | None,
        _in_ray(
            "HOST:PORT of a Ray cluster, or auto on one of its machines. Default: one for this "
            "run, on this machine."
        ),
    ] = None,
    json_output: AsJson = False,
) -> None:
    """Process a data set of images: a row of a Parquet file for each.

    The steps of an ensemble run in processes of Ray, on one machine or a cluster, or running
    servers do the work. A bad image is a row with a status and a message. Images that have a row in
    the output are left out: the same command continues a run that was ended.
    """
    plan = BatchPlan(
        inputs=tuple(inputs),
        detector=_detector(model, repository, tuple(url or ())),
        output=output,
        column=column,
        batch=batch_size,
        workers=workers,
        cpus=cpus,
        gpus=gpus,
        address=address,
    )
    report = run_batch(plan, on_progress=_Display().show)
    if json_output:
        row = {
            "output": report.output,
            "images": report.statuses.total(),
            "statuses": dict(report.statuses),
            "processed": report.images,
            "seconds": report.seconds,
            "skipped": dict(report.skipped),
        }
        print(json.dumps(row, indent=1))
    else:
        _print_summary(report)
    if report.failed:
        raise typer.Exit(SOME_IMAGE_FAILED)


def _detector(
    model: str | None, repository: Path | None, urls: tuple[str, ...]
) -> PipelineSpec | ServedModel:
    """Return what the options name."""
    is_file = model is not None and model.lower().endswith(".onnx")
    if sum((is_file, repository is not None, bool(urls))) != 1:
        raise InvalidArgumentError(
            "give one of --model MODEL.onnx, --repository FOLDER and --url HOST:PORT"
        )
    if urls:
        return ServedModel(urls, model or "detect")
    if repository is not None:
        return PipelineSpec.from_repository(repository, model or "detect")
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as name:
        models = Path(name, "models")
        plan = write_models(Path(str(model)), InitOptions(), models)
        for row in plan.summary():
            say(f"endcap: {row.name} {row.value} ({row.reason})")
        return PipelineSpec.from_repository(models, plan.names.ensemble)


class _Display:
    """Progress on standard error, a line from time to time."""

    def __init__(self) -> None:
        self._last: float | None = None

    def show(self, report: BatchReport) -> None:
        """Print the progress of the run, unless that was a moment ago."""
        now, done = time.monotonic(), report.statuses.total()
        if self._last is None:
            say(f"endcap: {count(report.total, 'image')}, {done} done before")
        elif now - self._last >= _LINES_EVERY_S:
            say(f"endcap: {done} of {report.total} images, {report.failed} failed")
        else:
            return
        self._last = now


def _print_summary(report: BatchReport) -> None:
    total = report.statuses.total()
    statuses = report.statuses.most_common()
    named = printable(", ".join(f"{number} {status}" for status, number in statuses))
    rate = f", {report.images / report.seconds:.1f}/s" if report.images and report.seconds else ""
    print(f"{count(total, 'image')}: {named or 'none'}")
    print(f"{printable(report.output)}: Parquet files with a row for each image")
    print(f"{count(report.images, 'image')} now, in {report.seconds:.1f} s{rate}")
    if report.skipped:
        suffixes = report.skipped.most_common()
        skipped = printable(", ".join(f"{number} {suffix}" for suffix, number in suffixes))
        say(f"endcap: {count(report.skipped.total(), 'file')} skipped: {skipped}")
