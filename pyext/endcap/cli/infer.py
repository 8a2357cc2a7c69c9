"""endcap infer: detections or classes of images, by a running server."""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.compare import Comparisons, describe_reference_failures, write_comparison
from endcap.cli.console import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    count,
    progress_bar,
    say,
)
from endcap.cli.files import check_targets
from endcap.cli.images import expand_images, find_videos
from endcap.cli.infer_options import INFER, InferOptions
from endcap.cli.infer_video import infer_videos
from endcap.cli.options import SERVER, ServerOptions, command
from endcap.cli.pictures import PictureFolder, picture_paths
from endcap.cli.report import Format, describe_failures, report_stream, write_report
from endcap.client import ClientArguments, DetectionClient, ImageResult, Task
from endcap.client.served_model import find_model
from endcap.errors import InvalidArgumentError
from endcap.evaluation.reference import Reference, open_reference
from endcap.evaluation.side_by_side import Comparison, check_task, compare
from endcap.tracking import Tracker
from endcap.triton.labels import read_labels
from endcap.video.detection import track_result

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

- `endcap infer archive/ --recursive --csv --output detections.csv`

- `endcap infer archive/ --concurrency 16 --batch 4`

- `endcap infer photos/ --shm system`

- `endcap infer clip.mp4 --track --draw tracked.mp4`

- `endcap infer rtsp://camera/stream --track --json --rate 5`

- `endcap infer photos/ --compare model_repository`

**Exit code**: 0 without errors, 1 when an image, a frame or a video failed, 2 when no request could
be sent, 130 when interrupted; the results until then are reported. 141 when the reader of the
output closed it early.
"""

_CLIENT = ClientArguments()
_IMAGE_RATE = 30.0  # frames a second that images are taken for


@command(server=SERVER, options=INFER)
def infer(
    images: Annotated[
        list[str],
        typer.Argument(
            help="Images or videos: files, folders, glob patterns; of videos http://, https:// and "
            "rtsp:// addresses and cameras such as /dev/video0, too."
        ),
    ],
    server: ServerOptions,
    options: InferOptions,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Include the subfolders of folders.")
    ] = False,
) -> None:
    """Detect objects in images and videos, or classify them, with a running server.

    Image files are sent unmodified. Boxes are x1, y1, x2, y2 in pixels of the image after EXIF
    orientation, or of the stored image where the model ignores EXIF (`endcap init` notes that in
    the ensemble).

    --json prints a list with one object per image: image, status ("ok", "corrupt_image",
    "image_limit", "unsupported", "invalid_argument", "unreadable", "timeout", "unavailable", ...),
    detections (box, score, class_id, label) or, of a classifier, classes (class_id, label, score),
    and error where the status is not "ok". Where the model gives them, detections have keypoints
    (x, y, visibility), angle (radians, clockwise; box is the box before its rotation around its
    centre), mask (COCO's size and counts), track_id and, of a cascade, classification (class_id,
    label, score). Of a segmentation an object has size (height, width) and classes (class_id,
    label, pixels, fraction, rle) in place of detections. For an ensemble written by
    `init --head none`, an object has latency_ms, and tensors, the type and shape of each output, in
    place of detections.

    --csv has the columns image, status, class_id, label, score, x1, y1, x2, y2, and of rotated
    boxes angle, of tracked ones track_id; an image without detections has one row, its other cells
    empty, and a class has no box. Texts that begin with =, +, - or @ have an apostrophe before
    them, so that spreadsheets do not run them.

    --coco prints one object with images (file_name relative to their common folder),
    categories (id is class_id + 1) and annotations (box as x, y, width, height, and score;
    keypoints; as segmentation a mask of the image's size, or the corners of a rotated box); failed
    images are listed with their status.

    --draw shows boxes, keypoints (17 with COCO's skeleton), masks of the image's size and, of a
    cascade, the class of each region; of tracks their ids and, in videos, trails; of a segmentation
    the colours of its classes, and a legend.

    Videos are processed one after the other, their frames decoded here. --json prints an object on
    a line for each frame as soon as there is one: source, frame_index, pts_seconds, dropped (frames
    of a live source that were left out before this one), status, detections or classes, error.
    --csv has the first four as columns before those of images. Without either a summary of each
    video is printed. Live sources end with Ctrl-C, and are opened again when they break.

    --compare prints for each image the numbers of results of the server and of the reference, how
    many match (the same class and, for boxes, an IoU above 0.5, best score first), and the largest
    difference of a box edge, in pixels, and of a score. Differences are not a failure.
    """
    with contextlib.ExitStack() as until_reported:  # closing the client does not delay the report
        videos = find_videos(images, recursive=recursive)
        options.check(server.batch, videos[0].name if videos else None)
        arguments = server.client_arguments(
            model=options.model or _CLIENT.model,
            concurrency=options.concurrency,
            labels=read_labels(options.labels) if options.labels else None,
        )

        def connect() -> DetectionClient:
            is_strict = options.model is not None or options.compare is not None
            return until_reported.enter_context(
                DetectionClient.from_arguments(
                    arguments if is_strict else _with_model_of_server(arguments)
                )
            )

        read = [*filter(None, (options.labels, options.network, server.tls_ca))]
        if videos:
            raise typer.Exit(infer_videos(connect, videos, options, read=read))
        paths = expand_images(images, recursive=recursive)
        drawn = picture_paths(options.draw, paths).values()
        check_targets([*read, *paths], drawn, options.output)
        reference = None
        if options.compare is not None:
            reference = open_reference(options.compare, arguments.model, network=options.network)
        comparisons: dict[str, Comparison] = {}
        with report_stream(options.output) as report:
            pictures = PictureFolder(options.draw, paths) if options.draw else None
            client = connect()
            _check_task(client, options, reference)

            def take(result: ImageResult) -> None:
                if reference is not None and result.ok and result.image not in comparisons:
                    comparisons[result.image] = compare(reference, result, client.labels)
                if pictures is not None:
                    pictures.add(result, client.labels)

            results = _detect(client, paths, options, take)
            if reference is not None:
                write_comparison(results, comparisons, report, json=options.json)
            else:
                write_report(results, options.format, client.labels, report)
        _end(results, len(paths), pictures, comparisons)


def _with_model_of_server(arguments: ClientArguments) -> ClientArguments:
    """Return the arguments with the server's only model where it has none of the default name."""
    model = find_model(arguments.address, arguments.connection, arguments.model)
    if model != arguments.model:
        say(f"endcap: the server has no model '{arguments.model}'; taking {model}, the only one")
    return replace(arguments, model=model)


def _check_task(
    client: DetectionClient, options: InferOptions, reference: Reference | None
) -> None:
    """Raise InvalidArgumentError for options that do not fit the model's task."""
    format = options.format
    if format is Format.coco and client.task is Task.classification:
        raise InvalidArgumentError(
            f"--coco holds detections, and model '{client.model}' is a classifier; give --json or "
            "--csv"
        )
    if client.task is Task.segmentation and (options.track or format in (Format.csv, Format.coco)):
        what = "tracked" if options.track else f"a report as {format.value}"
        raise InvalidArgumentError(
            f"model '{client.model}' gives the class of each pixel, which cannot be {what}; give "
            "--json, or leave out --track, --csv and --coco"
        )
    drawn = options.draw or options.track
    if client.task is Task.tensors and (drawn or format in (Format.csv, Format.coco)):
        what = "drawn or tracked" if drawn else f"a report as {format.value}"
        raise InvalidArgumentError(
            f"model '{client.model}' returns tensors, which cannot be {what}: their types and "
            "shapes are reported; leave out --draw, --track, --csv and --coco"
        )
    if client.task in (Task.segmentation, Task.tensors) and options.score_threshold > 0:
        raise InvalidArgumentError(
            f"model '{client.model}' gives no scores; leave out --score-threshold"
        )
    if reference is not None:
        check_task(reference, client.task)


def _detect(
    client: DetectionClient,
    paths: Sequence[Path],
    options: InferOptions,
    on_result: Callable[[ImageResult], None],
) -> Sequence[ImageResult]:
    """Return the results until the end or a signal, in the order of the images."""
    received: list[ImageResult] = []
    with progress_bar("images", len(paths)) as advance, contextlib.suppress(StopRequested):

        def take(result: ImageResult) -> None:
            result = result.above(options.score_threshold)
            received.append(result)
            if not options.track:
                on_result(result)
            advance()

        client.detect(paths, on_result=take)
    positions: defaultdict[str, deque[int]] = defaultdict(deque)
    for number, path in enumerate(paths):
        positions[str(path)].append(number)  # a file may be given twice
    received.sort(key=lambda result: positions[result.image].popleft())
    if options.track:
        tracker = Tracker(frame_rate=_IMAGE_RATE if options.rate is None else options.rate)
        received = [track_result(result, tracker) for result in received]
        for result in received:
            on_result(result)
    return received


def _end(
    results: Sequence[ImageResult],
    sent: int,
    pictures: PictureFolder | None,
    comparisons: Comparisons,
) -> None:
    """Print messages about failures, and end the program with its exit code."""
    for message in pictures.summary() if pictures else ():
        say(message)
    failed = not all(result.ok for result in results)
    if failed:
        say(f"endcap: {describe_failures(results)}")
    not_compared = describe_reference_failures(comparisons)
    if not_compared:
        say(f"endcap: {not_compared}")
    if len(results) < sent:
        say(f"endcap: interrupted after {len(results)} of {count(sent, 'image')}")
        raise typer.Exit(INTERRUPTED)
    if failed or not_compared or (pictures and pictures.failures):
        raise typer.Exit(SOME_IMAGE_FAILED)
