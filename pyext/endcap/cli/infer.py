"""endcap infer: sends images to a running server."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from endcap._labels import read_labels
from endcap.cli.compare import (
    ReferenceBeside,
    check_comparison,
    describe_reference_failures,
    write_comparison,
)
from endcap.cli.failure import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    one_sentence,
    say,
    stopped_by_signals,
)
from endcap.cli.images import expand_images
from endcap.cli.kept_files import refuse_to_overwrite
from endcap.cli.options import SERVER_PANEL, Concurrency, Model, Protocol, Timeout, Verbose
from endcap.cli.pictures import PictureFolder
from endcap.cli.progress import progress_bar
from endcap.cli.report import count, describe_failures
from endcap.cli.report_form import Form, chosen_form, report_stream, write_report
from endcap.client import DetectionClient, ImageResult, Task
from endcap.errors import InvalidArgumentError

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

- `endcap infer archive/ --recursive --csv --output detections.csv`

- `endcap infer photo.jpg --model classify`

- `endcap infer photos/ --compare model_repository`

**Exit code**: 0 when all went well, 1 when an image failed, 2 when nothing could be asked, 130 when
it was interrupted; what was answered until then is reported. 141 when the reader of what it prints
went before the end.
"""

_OUTPUT = "Output"
_COMPARISON = "Comparison"


def infer(
    images: Annotated[
        list[str], typer.Argument(help="Files, folders and glob patterns.", metavar="IMAGE...")
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Look into the folders of a folder, too.")
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            help="HOST:PORT; the port may be left out, grpc:// or http:// put before.",
            rich_help_panel=SERVER_PANEL,
        ),
    ] = "127.0.0.1",
    protocol: Protocol = None,
    model: Model = "detect",
    timeout: Timeout = 30.0,
    concurrency: Concurrency = 4,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=_OUTPUT)
    ] = False,
    csv_output: Annotated[
        bool,
        typer.Option("--csv", help="Print CSV, a row for each detection.", rich_help_panel=_OUTPUT),
    ] = False,
    coco_output: Annotated[
        bool,
        typer.Option(
            "--coco", help="Print a data set in COCO's JSON format.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for the report, instead of printing it.",
            show_default=False,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option(
            help="Folder for pictures with what was found drawn on them.",
            show_default=False,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Class names, one per line. Else the server's.",
            show_default=False,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Model repository that is served: runs its network on the same images without a "
            "server, between OpenCV and NumPy, and compares.",
            metavar="REPOSITORY",
            show_default=False,
            rich_help_panel=_COMPARISON,
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file for --compare. Else the repository's model.onnx.",
            metavar="FILE.onnx",
            show_default=False,
            rich_help_panel=_COMPARISON,
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Detect objects in images, or classify them, with a running server.

    The files are sent as they are. Boxes are x1, y1, x2, y2 in pixels of the upright picture.

    --json prints a list with one object per image: image, status ("ok", "corrupt_image",
    "image_limit", "unsupported", "invalid_argument", "unreadable", "timeout", "unavailable", ...),
    detections (box, score, class_id, label) or, of a classifier, classes (class_id, label, score),
    and error where the status is not "ok". Where the model gives them, detections have keypoints
    (x, y, visibility), angle (radians, clockwise; box is as before it is turned around its centre),
    mask (COCO's size and counts) and, of a cascade, classification (class_id, label, score).

    --csv has the columns image, status, class_id, label, score, x1, y1, x2, y2, and of turned boxes
    angle; an image without detections has one row, its other cells empty, and a class has no box.

    --coco prints one object with images, categories (id is class_id + 1) and annotations (box as x,
    y, width, height, and score; keypoints; as segmentation a mask of the picture's size, or the
    corners of a turned box); failed images are listed with their status.

    --draw shows boxes, keypoints (17 with COCO's skeleton), masks of the picture's size and, of a
    cascade, what a detection was classified as.

    --compare prints for each image how many answers the server and the reference gave, how many
    match (the same class and, of boxes, an IoU above 0.5, best score first), and the largest
    difference of a box edge, in pixels, and of a score. Answers that differ are no failure.
    """
    form = chosen_form(json=json_output, csv=csv_output, coco=coco_output)
    check_comparison(form, compare, network)
    with (
        one_sentence(verbose=verbose),
        stopped_by_signals(exit_code=INTERRUPTED),
        contextlib.ExitStack() as until_reported,  # a client that waits holds no report up
    ):
        paths = expand_images(images, recursive=recursive)
        _keep_inputs([*paths, *filter(None, (labels, network))], output)
        names = read_labels(labels) if labels else None
        reference = ReferenceBeside(compare, model, network) if compare else None
        with report_stream(output) as stream:
            pictures = PictureFolder(draw, paths) if draw else None
            client = until_reported.enter_context(
                DetectionClient(
                    url,
                    protocol=protocol.value if protocol else None,
                    model=model,
                    timeout_s=timeout,
                    concurrency=concurrency,
                    labels=names,
                )
            )
            if form is Form.coco and client.task is not Task.detection:
                raise InvalidArgumentError(
                    f"--coco holds detections, and model '{model}' answers with classes; "
                    "give --json or --csv"
                )
            if reference is not None:
                reference.check_task(client.task)
            results = _detect(client, paths, pictures, reference)
            if reference is not None:
                write_comparison(results, reference.comparisons, stream, json=form is Form.json)
            else:
                write_report(results, form, client.labels, stream)
        _end(results, len(paths), pictures, reference)


def _keep_inputs(inputs: Sequence[Path], output: Path | None) -> None:
    if output is not None:
        refuse_to_overwrite(inputs, [output], advice="give --output another file")


def _detect(
    client: DetectionClient,
    paths: Sequence[Path],
    pictures: PictureFolder | None,
    reference: ReferenceBeside | None,
) -> list[ImageResult]:
    """Returns what was answered, in the order of `paths`: all, unless a signal came in between."""
    answered: list[ImageResult] = []
    with progress_bar("images", len(paths)) as advance:

        def take(result: ImageResult) -> None:
            if reference is not None:
                reference.add(result, client.labels)
            answered.append(result)
            if pictures is not None:
                pictures.add(result, client.labels)
            advance()

        try:
            return client.detect(paths, on_result=take)
        except StopRequested:
            positions = {str(path): position for position, path in enumerate(paths)}
            return sorted(answered, key=lambda result: positions[result.image])


def _end(
    results: Sequence[ImageResult],
    asked: int,
    pictures: PictureFolder | None,
    reference: ReferenceBeside | None,
) -> None:
    """Says what is not in the report, and ends the program with its exit code."""
    for sentence in pictures.summary() if pictures else ():
        say(sentence)
    failed = not all(result.ok for result in results)
    if failed:
        say(f"endcap: {describe_failures(results)}")
    not_compared = describe_reference_failures(reference.comparisons) if reference else None
    if not_compared:
        say(f"endcap: {not_compared}")
    if len(results) < asked:
        say(f"endcap: interrupted when {len(results)} of {count(asked, 'image')} were answered")
        raise typer.Exit(INTERRUPTED)
    if failed or not_compared or (pictures and pictures.failures):
        raise typer.Exit(SOME_IMAGE_FAILED)
