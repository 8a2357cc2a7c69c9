"""endcap infer: detections or classes of images, by a running server."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from endcap._images import IMAGE_SUFFIXES
from endcap.cli.compare import (
    ReferenceComparison,
    check_comparison,
    describe_reference_failures,
    write_comparison,
)
from endcap.cli.console import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    count,
    progress_bar,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.cli.files import model_files, refuse_to_overwrite
from endcap.cli.images import (
    VIDEO_SUFFIXES,
    ImageInputs,
    describe_no_images,
    image_inputs,
)
from endcap.cli.infer_video import VideoOptions, infer_videos, refuse_image_options
from endcap.cli.options import (
    DEFAULT_URL,
    FRAMES_PANEL,
    OUTPUT_PANEL,
    SENDING_PANEL,
    SERVER_PANEL,
    Batch,
    Compression,
    Concurrency,
    Headers,
    Output,
    Protocol,
    RegionBytes,
    Retries,
    SharedMemory,
    Shm,
    Timeout,
    TlsCa,
    Url,
    Verbose,
    check_region_bytes,
    connection_options,
    refused_option,
)
from endcap.cli.pictures import PictureFolder, picture_paths
from endcap.cli.report import Form, chosen_form, describe_failures, report_stream, write_report
from endcap.cli.results import above, whole_results
from endcap.cli.videos import find_videos
from endcap.client import (
    ClientArguments,
    Connection,
    ConnectionOptions,
    DetectionClient,
    ImageResult,
    Task,
)
from endcap.client.concurrency import run
from endcap.client.served_model import find_model
from endcap.errors import InvalidArgumentError
from endcap.tracking import Tracker
from endcap.triton.labels import read_labels
from endcap.video.detection import detect_in_order, tracked

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer https://example.com/photo.jpg --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

- `endcap infer archive/ --recursive --csv --output detections.csv`

- `endcap infer photo.jpg --model my_classifier --classify 5`

- `endcap infer archive/ --concurrency 16 --batch 4`

- `endcap infer photos/ --shm system`

- `endcap infer frames/ --model detect_track --stream --sequence 7`

- `endcap infer clip.mp4 --track --draw tracked.mp4`

- `endcap infer rtsp://camera/stream --track --json --rate 5`

- `endcap infer frames/ --sequence "camera 7" --draw tracked`

- `endcap infer photos/ --compare model_repository`

**Exit code**: 0 without errors, 1 when an image, a frame or a video failed, 2 when no request could
be sent, 130 when interrupted; the results until then are reported. 141 when the reader of the
output closed it early.
"""


_CLIENT = ClientArguments()
_COMPARISON_PANEL = "Comparison"
_TRACKING_MODEL = "detect_track"  # of the shipped repository
_IMAGE_RATE = 30.0  # frames a second that images are taken for


def infer(
    images: Annotated[
        list[str],
        typer.Argument(
            help="Images or videos: files, folders, glob patterns, http:// or https:// addresses; "
            "rtsp:// addresses and cameras such as /dev/video0."
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Include the subfolders of folders.")
    ] = False,
    url: Url = DEFAULT_URL,
    protocol: Protocol = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Name of the ensemble. Default: {_CLIENT.model}, else the server's only model "
            "that takes images and gives detections, classes or tensors.",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    timeout: Timeout = _CLIENT.timeout_s,
    concurrency: Concurrency = _CLIENT.concurrency,
    batch: Batch = _CLIENT.batch,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Send over one gRPC stream, which a decoupled model needs.",
            rich_help_panel=SENDING_PANEL,
        ),
    ] = False,
    track: Annotated[
        bool,
        typer.Option(
            "--track",
            help="Give objects ids that stay from frame to frame of a video, or from image to "
            "image in the order of their names.",
            rich_help_panel=FRAMES_PANEL,
        ),
    ] = False,
    sequence: Annotated[
        str | None,
        typer.Option(
            help="Send the frames of a video, or the images in the order of their names, as a "
            "sequence of this id, whose objects the server tracks. The model is then "
            "detect_track, without another --model.",
            metavar="ID",
            show_default=False,
            rich_help_panel=FRAMES_PANEL,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Frames of a video a second, by their times; of images, for --track. Default: "
            "all of a video, 30 of images.",
            show_default=False,
            rich_help_panel=FRAMES_PANEL,
        ),
    ] = None,
    every: Annotated[
        int,
        typer.Option(min=1, help="Take every n-th frame of a video.", rich_help_panel=FRAMES_PANEL),
    ] = 1,
    shm: Shm = SharedMemory.none,
    region_bytes: RegionBytes = None,
    classify: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Request the K best classes of a classifier, by Triton's classification "
            "extension.",
            metavar="K",
            show_default=False,
            rich_help_panel=SENDING_PANEL,
        ),
    ] = None,
    header: Headers = None,
    tls_ca: TlsCa = None,
    compression: Compression = None,
    retries: Retries = ConnectionOptions.retries,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=OUTPUT_PANEL)
    ] = False,
    csv_output: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print CSV, a row for each detection.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False,
    coco_output: Annotated[
        bool,
        typer.Option(
            "--coco", help="Print a data set in COCO's JSON format.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False,
    output: Output = None,
    draw: Annotated[
        Path | None,
        typer.Option(
            help="Folder for pictures or videos with the results drawn on them, also of one image; "
            "an MP4 file for one video.",
            show_default=False,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    score_threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Leave results with lower scores out of report and pictures. The server has a "
            "threshold of its own.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = 0.0,
    _conf: Annotated[str | None, refused_option("--conf", "--score-threshold")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="File of class names, one per line. Default: the server's.",
            show_default=False,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Model repository that is served: runs its network on the same images without a "
            "server, with OpenCV and NumPy, and compares the results.",
            metavar="REPOSITORY",
            show_default=False,
            rich_help_panel=_COMPARISON_PANEL,
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file for --compare. Default: the repository's model.onnx.",
            metavar="FILE.onnx",
            show_default=False,
            rich_help_panel=_COMPARISON_PANEL,
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Detect objects in images and videos, or classify them, with a running server.

    Image files are sent as they are. Those of addresses are downloaded before, of up to 64 MiB
    each, within --timeout and with at most 5 redirects; no proxy is used. Boxes are x1, y1, x2, y2
    in pixels of the image after EXIF orientation, or of the stored image where the model ignores
    EXIF (`endcap init` notes that in the ensemble).

    --json prints a list with one object per image: image, status ("ok", "corrupt_image",
    "image_limit", "unsupported", "invalid_argument", "unreadable", "timeout", "unavailable", ...),
    detections (box, score, class_id, label) or, of a classifier, classes (class_id, label, score),
    and error where the status is not "ok". Where the model gives them, detections have keypoints
    (x, y, visibility), angle (radians, clockwise; box is the box before its rotation around its
    centre), mask (COCO's size and counts), track_id and, of a cascade, classification (class_id,
    label, score). Of an ensemble that `init --head none` wrote it has latency_ms and, in place of
    detections, tensors: the type and shape of each output.

    --csv has the columns image, status, class_id, label, score, x1, y1, x2, y2, and of rotated
    boxes angle, of tracked ones track_id; an image without detections has one row, its other cells
    empty, and a class has no box. Texts that begin with =, +, - or @ have an apostrophe before
    them, so that spreadsheets do not run them.

    --coco prints one object with images (file_name from the folder that all of them lie in),
    categories (id is class_id + 1) and annotations (box as x, y, width, height, and score;
    keypoints; as segmentation a mask of the image's size, or the corners of a rotated box); failed
    images are listed with their status.

    --draw shows boxes, keypoints (17 with COCO's skeleton), masks of the image's size and, of a
    cascade, the class of each region; of tracks their ids and the way that they came.

    Frames of videos are decoded here and sent as they are; --concurrency requests are in flight,
    shared by the videos. --json prints an object on a line for each frame as soon as there is one:
    source, frame_index, pts_seconds, dropped (frames of a live source that were left out before
    this one), status, detections or classes, error. --csv has the first four as columns before
    those of images. Without either a summary of each video is printed at the end. Live sources end
    with Ctrl-C, and are opened again when they break.

    --compare prints for each image the numbers of results of the server and of the reference, how
    many match (the same class and, for boxes, an IoU above 0.5, best score first), and the largest
    difference of a box edge, in pixels, and of a score. Differences are no failure.
    """
    form = chosen_form(json=json_output, csv=csv_output, coco=coco_output)
    check_comparison(form, compare, network)
    with (
        report_errors(verbose=verbose),
        stopped_by_signals(exit_code=INTERRUPTED),
        contextlib.ExitStack() as until_reported,  # closing the client does not delay the report
    ):
        _check_stream(batch, stream=stream)
        if track and sequence is not None:
            raise InvalidArgumentError(
                "--track gives ids here and --sequence has the server give them; give one of them"
            )
        if sequence is not None and model in (None, _CLIENT.model):
            model = _TRACKING_MODEL
        check_region_bytes(region_bytes, is_shared=shm is not SharedMemory.none)
        read = [*filter(None, (labels, network, tls_ca))]
        names = read_labels(labels) if labels else None
        arguments = ClientArguments(
            url,
            protocol=protocol.value if protocol else None,
            model=_CLIENT.model if model is None else model,
            concurrency=concurrency,
            batch=batch,
            labels=names,
            shared_memory=shm.value,
            region_bytes=region_bytes,
            classify=classify,
            options=connection_options(
                timeout=timeout,
                retries=retries,
                headers=header or (),
                tls_ca=tls_ca,
                compression=compression,
            ),
        )

        def connect() -> DetectionClient:
            is_strict = model is not None or compare is not None
            return DetectionClient.from_arguments(
                arguments if is_strict else _with_model_of_server(arguments)
            )

        videos = find_videos(images, recursive=recursive, timeout_s=timeout)
        if videos:
            options = VideoOptions(
                track=track,
                sequence=sequence,
                stream=stream,
                rate=rate,
                every=every,
                threshold=score_threshold,
                form=form,
                output=output,
                draw=draw,
            )
            refuse_image_options(videos, compare=compare is not None, batch=batch, form=form)
            code = infer_videos(connect, videos, options, read=read, closing=until_reported)
            raise typer.Exit(code)
        _check_images(draw, rate, every, track=track)
        inputs = until_reported.enter_context(image_inputs(images, recursive=recursive))
        _keep_inputs(read, inputs.paths, repository=compare, output=output, draw=draw)
        reference = ReferenceComparison(compare, arguments.model, network) if compare else None
        with report_stream(output) as report:
            pictures = PictureFolder(draw, inputs.paths) if draw else None
            client = until_reported.enter_context(connect())
            _check_task(client, form, client.model, reference)
            if client.task is Task.tensors and (draw or track):
                raise InvalidArgumentError(
                    f"model '{client.model}' returns tensors, which cannot be drawn or tracked; "
                    "leave out --draw and --track"
                )
            inputs.download(timeout_s=timeout)
            tracker = Tracker(frame_rate=rate or _IMAGE_RATE) if track else None
            results = _detect(
                client,
                inputs,
                pictures,
                reference,
                stream=stream,
                sequence=sequence,
                tracker=tracker,
                threshold=score_threshold,
            )
            if reference is not None:
                write_comparison(results, reference.comparisons, report, json=form is Form.json)
            else:
                write_report(
                    results,
                    form,
                    client.labels,
                    report,
                    files=inputs.files,
                    folder=inputs.folder,
                )
        _end(results, len(inputs), pictures, reference)


def _with_model_of_server(arguments: ClientArguments) -> ClientArguments:
    """Return the arguments with the server's only model where it has none of the default name."""
    with Connection(arguments.address, arguments.connection) as connection:
        model = run(find_model(connection.coroutines, arguments.model))
    if model != arguments.model:
        say(f"endcap: the server has no model '{arguments.model}'; taking {model}, the only one")
    return replace(arguments, model=model)


def _end(
    results: Sequence[ImageResult],
    sent: int,
    pictures: PictureFolder | None,
    reference: ReferenceComparison | None,
) -> None:
    """Print messages about failures, and end the program with its exit code."""
    for message in pictures.summary() if pictures else ():
        say(message)
    failed = not all(result.ok for result in results)
    if failed:
        say(f"endcap: {describe_failures(results)}")
        no_images = describe_no_images(results)
        if no_images:
            say(f"endcap: {no_images}")
    not_compared = describe_reference_failures(reference.comparisons) if reference else None
    if not_compared:
        say(f"endcap: {not_compared}")
    if len(results) < sent:
        say(f"endcap: interrupted after {len(results)} of {count(sent, 'image')}")
        raise typer.Exit(INTERRUPTED)
    if failed or not_compared or (pictures and pictures.failures):
        raise typer.Exit(SOME_IMAGE_FAILED)


def _check_stream(batch: int, *, stream: bool) -> None:
    """Raise InvalidArgumentError for a stream with batches."""
    if stream and batch > 1:
        raise InvalidArgumentError(
            f"--stream sends images one by one, so --batch {batch} is impossible; "
            "leave one of the two out"
        )


def _check_images(draw: Path | None, rate: float | None, every: int, *, track: bool) -> None:
    """Raise InvalidArgumentError for options of videos where there are images."""
    if every != 1 or (rate is not None and not track):
        name = "--every" if every != 1 else "--rate"
        raise InvalidArgumentError(f"{name} is of videos, and there are images; leave it out")
    if draw is None or draw.is_dir():
        return
    if draw.suffix.lower() in VIDEO_SUFFIXES:
        raise InvalidArgumentError(
            f"--draw {draw} is the name of a video, and there are images; give a folder"
        )
    if draw.suffix.lower() in IMAGE_SUFFIXES:
        raise InvalidArgumentError(
            f"--draw {draw} is the name of a picture; give a folder, also for one image"
        )


def _check_task(
    client: DetectionClient, form: Form, model: str, reference: ReferenceComparison | None
) -> None:
    """Raise InvalidArgumentError for a report that does not fit the model's task."""
    if form is Form.coco and client.task is Task.classification:
        raise InvalidArgumentError(
            f"--coco holds detections, and model '{model}' is a classifier; give --json or --csv"
        )
    if client.task is Task.tensors and form in (Form.csv, Form.coco):
        raise InvalidArgumentError(
            f"model '{model}' returns tensors, of which types and shapes are reported; give "
            f"--json, or leave out --{form.value}"
        )
    if reference is not None:
        reference.check_task(client.task)


def _keep_inputs(
    inputs: Sequence[Path],
    images: Sequence[Path],
    *,
    repository: Path | None,
    output: Path | None,
    draw: Path | None,
) -> None:
    """Raise InvalidArgumentError where the report or a picture would replace an input.

    Args:
        inputs: Files that are read beside the images.
        images: The images; PictureFolder checks that no picture replaces one of them.
        repository: Of --compare, whose models are read.
        output: File of the report.
        draw: Folder of the pictures.
    """
    pictures = list(picture_paths(draw, images).values()) if draw is not None else []
    if output is not None and os.path.realpath(output) in map(os.path.realpath, pictures):
        raise InvalidArgumentError(f"--output {output} is a picture of --draw; give another file")
    for targets, read, advice in (
        ([output] if output is not None else [], [*inputs, *images], "give --output another file"),
        (pictures, inputs, "give another folder for the pictures"),
    ):
        models = model_files(repository) if repository is not None and targets else ()
        refuse_to_overwrite(itertools.chain(read, models), targets, advice=advice)


def _detect(
    client: DetectionClient,
    inputs: ImageInputs,
    pictures: PictureFolder | None,
    reference: ReferenceComparison | None,
    *,
    stream: bool,
    sequence: str | None,
    tracker: Tracker | None,
    threshold: float,
) -> Sequence[ImageResult]:
    """Return the results until the end or a signal, in the order of the inputs."""
    received: list[ImageResult] = []
    paths = inputs.readable
    with progress_bar("images", len(paths)) as advance, contextlib.suppress(StopRequested):

        def take(result: ImageResult) -> None:
            result = above(result, threshold)
            named = inputs.named(result)
            if reference is not None:
                reference.add(result, client.labels, name=named.image)
            received.append(named)
            if pictures is not None:
                pictures.add(named, client.labels, file=Path(result.image))
            advance()

        if sequence is not None:
            for result in client.track(paths, sequence=sequence):
                take(result)
        elif stream:
            for result in whole_results(client.detect_stream(paths)):
                take(result if tracker is None else tracked(result, tracker))
        elif tracker is not None:
            with contextlib.closing(detect_in_order(client, paths)) as results:
                for result in results:
                    take(tracked(result, tracker))
        else:
            client.detect(paths, on_result=take)
    return inputs.in_order(received, client.task)
