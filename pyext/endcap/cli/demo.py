"""endcap demo: the shipped repository on a server, with the shipped images."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from endcap._files import whole_text_file
from endcap.cli.console import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    PlainConsole,
    check_stop,
    count,
    installing,
    progress_bar,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.cli.files import (
    MADE_BY,
    SAMPLES,
    find_repository,
    make_folder,
    refuse_foreign,
    refuse_to_overwrite,
)
from endcap.cli.images import expand_images
from endcap.cli.latency import Latency, as_tables, measure
from endcap.cli.options import Verbose
from endcap.cli.pictures import PictureFolder, picture_paths, sheet_paths, write_sheets
from endcap.cli.report import as_table, describe_failures, summary
from endcap.client import DetectionClient, ImageResult
from endcap.errors import VideoError
from endcap.server import ServerPorts, ServerSettings, TritonServer

EXAMPLES = """
**Examples**

- `endcap demo`

- `endcap demo --images photos --output pictures`

- `endcap demo --web`

- `endcap demo --url 127.0.0.1:8001 --repeat 50`

**Exit code**: 0 without errors, 1 when an image failed or nothing was detected, 2 when it could not
run, 130 when interrupted.
"""

_ENSEMBLE = "detect"

_LOG_NAME = "server.log"
_TIMES_NAME = "latency.json"


def demo(
    output: Annotated[
        Path, typer.Option(help="Folder for the pictures, latency.json and the server's log.")
    ] = Path("demo-output"),
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images. Default: the shipped ones.", show_default=False),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=0, help="Requests per image for the latency; 0 for none.")
    ] = 5,
    url: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of a running server. Default: a server is started.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Name of the ensemble, with --url.")] = _ENSEMBLE,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a web page for uploads and the camera instead.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the web page; 0 picks a free one.")
    ] = 8080,
    verbose: Verbose = False,
) -> None:
    """Start a Triton server, send it images, and draw the detections.

    Writes annotated pictures, contact_sheet.jpg with all of them, and latency.json; where PyAV is
    installed and the server is its own, shapes.mp4 with moving shapes, too, and
    shapes_tracked.mp4 with their tracks. The server listens on free ports of this machine and stops
    at the end. Requests are sent over gRPC, one at a time; latency is measured at the client and
    split up by the server's statistics.

    With --web it serves a page on this machine until Ctrl-C, and writes the server's log only.
    """
    console = PlainConsole(highlight=False)
    with (
        report_errors(verbose=verbose),
        stopped_by_signals(exit_code=0 if web else INTERRUPTED),
    ):
        paths = expand_images([str(images or find_repository() / SAMPLES)])
        with_clip = url is None and not web and importlib.util.find_spec("av") is not None
        targets = [output / _LOG_NAME] if web else _targets(output, paths, with_clip=with_clip)
        refuse_to_overwrite(paths, targets, advice="give --output another folder")
        refuse_foreign(targets, advice="give --output another folder")
        make_folder(output)
        with contextlib.ExitStack() as resources:
            server_url = url or resources.enter_context(_started_server(output, console))
            if web:
                _serve_page(server_url, model, port, paths, console)
            with DetectionClient(server_url, model=model, concurrency=1) as client:
                results, latency = _detect(client, paths, repeat, console)
            _write(results, latency, client.labels, output, console)
            if with_clip:
                _write_clips(server_url, output, console)
    problem = _problem(results, latency)
    if problem is not None:
        log = "" if url else f"; the server's log is {output / _LOG_NAME}"
        say(f"endcap: {problem}{log}")
        raise typer.Exit(SOME_IMAGE_FAILED)


def _targets(output: Path, paths: Sequence[Path], *, with_clip: bool) -> list[Path]:
    sheets, pictures = sheet_paths(output, len(paths)), picture_paths(output, paths)
    targets = [output / _LOG_NAME, output / _TIMES_NAME, *sheets, *pictures.values()]
    if with_clip:
        from endcap.cli.demo_clip import clip_paths  # needs PyAV

        targets += clip_paths(output)
    return targets


@contextlib.contextmanager
def _started_server(output: Path, console: Console) -> Iterator[str]:
    repository = find_repository()
    (output / _LOG_NAME).unlink(missing_ok=True)  # it may be a link
    with (output / _LOG_NAME).open("xb") as log_file:
        log_file.write(f"{MADE_BY} demo: the log of its Triton server\n".encode())
        log_file.flush()
        settings = ServerSettings(
            models=(_ENSEMBLE,),
            ports=ServerPorts(http=0, grpc=0, metrics=0),
            log_file=log_file,
        )
        console.print(f"Starting a Triton server on {repository} ...", markup=False)
        with TritonServer(repository, settings, progress=installing) as server:
            yield server.grpc_url


def _serve_page(
    server_url: str, model: str, port: int, samples: Sequence[Path], console: Console
) -> None:
    """Serve the page until a signal ends it."""
    from endcap.tools import web

    def announce(url: str) -> None:
        console.print(f"[bold green]Ready.[/] Open {url} in a browser; Ctrl-C stops the server.")

    web.run(
        server_url, port=port, samples=samples, model=model, ready=announce, check_stop=check_stop
    )


def _detect(
    client: DetectionClient, paths: Sequence[Path], repeat: int, console: Console
) -> tuple[list[ImageResult], Latency | None]:
    """Send each image once, print the results, and measure the latency of those without errors."""
    console.print(
        f"Ready at {client.address}; sending {count(len(paths), 'image')}.\n", markup=False
    )
    with progress_bar("images", len(paths)) as advance:
        results = client.detect(paths, on_result=lambda _: advance())
    console.print(as_table([_short_name(each) for each in results], latency=True), crop=False)
    console.print(f"\n{summary(results)}", markup=False)
    good = [path for path, result in zip(paths, results, strict=True) if result.ok]
    return results, measure(client, good, repeat) if good and repeat else None


def _write(
    results: Sequence[ImageResult],
    latency: Latency | None,
    labels: Sequence[str] | None,
    output: Path,
    console: Console,
) -> None:
    if latency is not None:
        console.print()
        console.print(as_tables(latency))
        with whole_text_file(output / _TIMES_NAME, follow_links=False) as file:
            content = {"note": f"{MADE_BY} demo", **latency.to_json()}
            file.write(json.dumps(content, indent=2) + "\n")
    pictures = PictureFolder(output, [Path(result.image) for result in results])
    with progress_bar("pictures", len(results)) as advance:
        for result in results:
            pictures.add(result, labels)
            advance()
    for problem in (*pictures.failures, pictures.describe_missing_masks()):
        if problem is not None:
            say(f"endcap: {problem}")
    sheets = write_sheets(results, latency, labels, output)
    named = sheets[0].name if len(sheets) == 1 else f"{sheets[0].name} to {sheets[-1].name}"
    console.print(
        f"{count(len(pictures.written), 'picture')}, {named}"
        f"{f', {_TIMES_NAME}' if latency else ''} in {output}/.",
        markup=False,
    )


def _write_clips(server_url: str, output: Path, console: Console) -> None:
    """Write a clip, and the same with its tracks; print what was found."""
    from endcap.cli.demo_clip import TRACKED_NAME, write_clips  # needs PyAV

    try:
        summary = write_clips(server_url, _ENSEMBLE, output)
    except VideoError as error:  # a PyAV without encoders
        say(f"endcap: {TRACKED_NAME} is not written: {error}")
        return
    console.print()
    console.print(summary.lines(tracked=True), crop=False)
    console.print(f"\n{TRACKED_NAME} in {output}/ shows them.", markup=False)


def _short_name(result: ImageResult) -> ImageResult:
    return dataclasses.replace(result, image=Path(result.image).name)


def _problem(results: Sequence[ImageResult], latency: Latency | None) -> str | None:
    if not all(result.ok for result in results):
        return describe_failures(results)
    if latency is not None and latency.failures:
        return f"when they were sent again, {describe_failures(latency.failures)}"
    if not any(result.predictions for result in results):
        return f"nothing was detected in any of {count(len(results), 'image')}"
    return None
