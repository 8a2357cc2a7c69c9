"""endcap infer: sends images to a running server."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from endcap.cli.failure import SOME_IMAGE_FAILED, one_sentence, say, stopped_by_signals
from endcap.cli.images import expand_images, make_folder, read_labels, write_pictures
from endcap.cli.report import as_json, as_table, count, describe_failures
from endcap.client import DetectionClient, ImageResult

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

**Exit code**: 0 when all went well, 1 when an image failed, 2 when nothing could be asked.
"""

_PROGRESS_FROM_IMAGES = 8
_INTERRUPTED = 130


class ProtocolName(str, Enum):
    """What `--protocol` takes."""

    grpc = "grpc"
    http = "http"


def infer(
    images: Annotated[
        list[str], typer.Argument(help="Files, folders and glob patterns.", metavar="IMAGE...")
    ],
    url: Annotated[
        str,
        typer.Option(help="HOST:PORT; the port may be left out, grpc:// or http:// put before."),
    ] = "127.0.0.1",
    protocol: Annotated[
        ProtocolName | None,
        typer.Option(help="Else the URL's, else grpc.", show_default=False),
    ] = None,
    model: Annotated[str, typer.Option(help="Name of the ensemble.")] = "detect",
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
    draw: Annotated[
        Path | None,
        typer.Option(help="Folder for pictures with the boxes drawn.", show_default=False),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Class names, one per line. Else the server's.", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each request.")] = 30.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight at once.")] = 4,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")] = False,
) -> None:
    """Detect objects in images with a running server.

    The files are sent as they are. With --json it prints a list with one object per image:
    image, status ("ok", "corrupt_image", "image_limit", "unsupported", "invalid_argument",
    "unreadable", "timeout", "unavailable", ...), detections (box as x1, y1, x2, y2 in pixels of
    the upright picture, score, class_id, label), and error where the status is not "ok".
    """
    with one_sentence(verbose=verbose), stopped_by_signals(exit_code=_INTERRUPTED):
        paths = expand_images(images)
        names = read_labels(labels) if labels else None
        if draw is not None:
            make_folder(draw)
        with DetectionClient(
            url,
            protocol=protocol.value if protocol else None,
            model=model,
            timeout_s=timeout,
            concurrency=concurrency,
            labels=names,
        ) as client:
            results = _detect(client, paths)
        if json_output:
            print(as_json(results))
        else:
            Console(highlight=False).print(as_table(results))
        if draw is not None:
            written = write_pictures(results, draw, client.labels)
            say(f"{count(len(written), 'picture')} in {draw}/")
    if not all(result.ok for result in results):
        say(f"endcap: {describe_failures(results)}")
        raise typer.Exit(SOME_IMAGE_FAILED)


def _detect(client: DetectionClient, paths: Sequence[Path]) -> list[ImageResult]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    silent = len(paths) < _PROGRESS_FROM_IMAGES or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        task = progress.add_task("images", total=len(paths))
        return client.detect(paths, on_result=lambda _: progress.advance(task))
