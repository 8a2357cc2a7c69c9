"""endcap infer: sends images to a running server."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import typer

from endcap._labels import read_labels
from endcap.cli.compare import (
    ReferenceBeside,
    check_comparison,
    describe_reference_failures,
    write_comparison,
)
from endcap.cli.connection_options import connection_options
from endcap.cli.images import expand_images
from endcap.cli.infer_checks import check_stream, check_task, keep_inputs
from endcap.cli.infer_options import (
    AsCoco,
    AsCsv,
    AsJson,
    Classify,
    Compare,
    Draw,
    Images,
    Labels,
    Network,
    Output,
    Recursive,
    Stream,
)
from endcap.cli.infer_run import detect, open_client
from endcap.cli.options import (
    Batch,
    Compression,
    Concurrency,
    Headers,
    Model,
    Protocol,
    RegionBytes,
    Retries,
    SharedMemory,
    Shm,
    Timeout,
    TlsCa,
    Url,
    UseAsyncio,
    Verbose,
)
from endcap.cli.pictures import PictureFolder
from endcap.cli.region_size import check_region_bytes
from endcap.cli.report import describe_failures
from endcap.cli.report_form import Form, chosen_form, report_stream, write_report
from endcap.client import ClientArguments, ImageResult
from endcap.terminal.console import count
from endcap.terminal.failure import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    report_errors,
    say,
    stopped_by_signals,
)

EXAMPLES = """
**Examples**

- `endcap infer photo.jpg`

- `endcap infer photos/ "more/*.jpg" --draw pictures`

- `endcap infer photo.jpg --url http://127.0.0.1:8000 --json`

- `endcap infer archive/ --recursive --csv --output detections.csv`

- `endcap infer photo.jpg --model my_classifier --classify 5`

- `endcap infer archive/ --async --concurrency 16 --batch 4`

- `endcap infer photos/ --shm system`

- `endcap infer photo.jpg --model cascade_bls_decoupled --stream`

- `endcap infer photos/ --compare model_repository`

**Exit code**: 0 when all went well, 1 when an image failed, 2 when nothing could be asked, 130 when
it was interrupted; what was answered until then is reported. 141 when the reader of what it prints
went before the end.
"""


def infer(
    images: Images,
    recursive: Recursive = False,
    url: Url = "127.0.0.1",
    protocol: Protocol = None,
    model: Model = "detect",
    timeout: Timeout = 30.0,
    concurrency: Concurrency = 4,
    batch: Batch = 1,
    use_asyncio: UseAsyncio = False,
    stream: Stream = False,
    shm: Shm = SharedMemory.none,
    region_bytes: RegionBytes = None,
    classify: Classify = None,
    header: Headers = None,
    tls_ca: TlsCa = None,
    compression: Compression = None,
    retries: Retries = 12,
    json_output: AsJson = False,
    csv_output: AsCsv = False,
    coco_output: AsCoco = False,
    output: Output = None,
    draw: Draw = None,
    labels: Labels = None,
    compare: Compare = None,
    network: Network = None,
    verbose: Verbose = False,
) -> None:
    """Detect objects in images, or classify them, with a running server.

    The files are sent as they are. Boxes are x1, y1, x2, y2 in pixels of the picture,
    upright unless the model ignores EXIF (`endcap init` notes that in the ensemble).

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
        report_errors(verbose=verbose),
        stopped_by_signals(exit_code=INTERRUPTED),
        contextlib.ExitStack() as until_reported,  # a client that waits holds no report up
    ):
        check_stream(batch, stream=stream)
        check_region_bytes(region_bytes, is_shared=shm is not SharedMemory.none)
        paths = expand_images(images, recursive=recursive)
        keep_inputs(
            [*filter(None, (labels, network, tls_ca))],
            paths,
            repository=compare,
            output=output,
            draw=draw,
        )
        names = read_labels(labels) if labels else None
        reference = ReferenceBeside(compare, model, network) if compare else None
        arguments = ClientArguments(
            url,
            protocol=protocol.value if protocol else None,
            model=model,
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
        with report_stream(output) as report:
            pictures = PictureFolder(draw, paths) if draw else None
            client = open_client(arguments, use_asyncio=use_asyncio)
            until_reported.enter_context(client)
            check_task(client, form, model, reference)
            results = detect(client, paths, pictures, reference, stream=stream)
            if reference is not None:
                write_comparison(results, reference.comparisons, report, json=form is Form.json)
            else:
                write_report(results, form, client.labels, report)
        _end(results, len(paths), pictures, reference)


def _end(
    results: Sequence[ImageResult],
    asked: int,
    pictures: PictureFolder | None,
    reference: ReferenceBeside | None,
) -> None:
    """Say what is not in the report, and end the program with its exit code."""
    for message in pictures.summary() if pictures else ():
        say(message)
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
