"""endcap infer: sends images to a running server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console

from endcap._labels import read_labels
from endcap.cli.export import as_coco, as_csv, as_json
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
from endcap.cli.report import as_table, count, describe_failures, summary
from endcap.cli.whole_file import whole_text_file
from endcap.client import DetectionClient, ImageResult

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

- `endcap infer archive/ --recursive --csv --output detections.csv`

**Exit code**: 0 when all went well, 1 when an image failed, 2 when nothing could be asked, 130 when
it was interrupted; what was answered until then is reported. 141 when the reader of what it prints
went before the end.
"""

_OUTPUT = "Output"


class Form(str, Enum):
    """What the report looks like."""

    table = "table"
    json = "json"
    csv = "csv"
    coco = "coco"


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
            help="Folder for pictures with the boxes drawn.",
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
    verbose: Verbose = False,
) -> None:
    """Detect objects in images with a running server.

    The files are sent as they are. Boxes are x1, y1, x2, y2 in pixels of the upright picture.

    --json prints a list with one object per image: image, status ("ok", "corrupt_image",
    "image_limit", "unsupported", "invalid_argument", "unreadable", "timeout", "unavailable", ...),
    detections (box, score, class_id, label), and error where the status is not "ok".

    --csv has the columns image, status, class_id, label, score, x1, y1, x2, y2; an image without
    detections has one row, its other cells empty.

    --coco prints one object with images, categories (id is class_id + 1) and annotations (box as x,
    y, width, height, and score); failed images are listed with their status.
    """
    form = _form(json=json_output, csv=csv_output, coco=coco_output)
    with (
        one_sentence(verbose=verbose),
        stopped_by_signals(exit_code=INTERRUPTED),
        contextlib.ExitStack() as until_reported,  # a client that waits holds no report up
    ):
        paths = expand_images(images, recursive=recursive)
        _keep_inputs(paths, labels, output)
        names = read_labels(labels) if labels else None
        with _destination(output) as destination:
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
            results = _detect(client, paths, pictures)
            _print(results, form, client.labels, destination)
        _end(results, len(paths), pictures, draw)


def _form(**wanted: bool) -> Form:
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(f'--{name}' for name in chosen)}: give one only")
    return Form(chosen[0]) if chosen else Form.table


def _keep_inputs(paths: Sequence[Path], labels: Path | None, output: Path | None) -> None:
    if output is not None:
        inputs = [*paths, labels] if labels else paths
        refuse_to_overwrite(inputs, [output], advice="give --output another file")


@contextlib.contextmanager
def _destination(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with whole_text_file(output) as file:
            yield file


def _detect(
    client: DetectionClient, paths: Sequence[Path], pictures: PictureFolder | None
) -> list[ImageResult]:
    """Returns what was answered, in the order of `paths`: all, unless a signal came in between."""
    answered: list[ImageResult] = []
    with progress_bar("images", len(paths)) as advance:

        def take(result: ImageResult) -> None:
            answered.append(result)
            if pictures is not None:
                pictures.add(result, client.labels)
            advance()

        try:
            return client.detect(paths, on_result=take)
        except StopRequested:
            positions = {str(path): position for position, path in enumerate(paths)}
            return sorted(answered, key=lambda result: positions[result.image])


def _print(
    results: Sequence[ImageResult], form: Form, labels: Sequence[str] | None, stream: TextIO
) -> None:
    if form is Form.table:
        console = Console(file=stream, highlight=False)
        console.print(as_table(results), crop=False)
        if len(results) > 1:
            console.print(f"\n{summary(results)}", markup=False)
        return
    if form is Form.coco:
        text = as_coco(results, labels)
    else:
        text = as_csv(results) if form is Form.csv else as_json(results)
    stream.write(text + "\n")


def _end(
    results: Sequence[ImageResult], asked: int, pictures: PictureFolder | None, draw: Path | None
) -> None:
    """Says what is not in the report, and ends the program with its exit code."""
    not_drawn = pictures.failures if pictures else []
    if pictures:
        say(f"{count(len(pictures.written), 'picture')} in {draw}/")
    if not_drawn:
        say(f"endcap: {count(len(not_drawn), 'picture')} missing, the first: {not_drawn[0]}")
    failed = not all(result.ok for result in results)
    if failed:
        say(f"endcap: {describe_failures(results)}")
    if len(results) < asked:
        say(f"endcap: interrupted when {len(results)} of {count(asked, 'image')} were answered")
        raise typer.Exit(INTERRUPTED)
    if failed or not_drawn:
        raise typer.Exit(SOME_IMAGE_FAILED)
