"""endcap demo: the shipped repository on a server, with the shipped images."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from endcap.cli.console import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    PlainConsole,
    check_stop,
    count,
    installing,
    progress_bar,
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
from endcap.cli.options import command
from endcap.cli.pictures import PictureFolder, picture_paths
from endcap.cli.report import as_table, describe_failures, summary
from endcap.client import DetectionClient, ImageResult
from endcap.server import ServerPorts, ServerSettings, TritonServer

EXAMPLES = """
**Examples**

- `endcap demo`

- `endcap demo --images photos --output pictures`

- `endcap demo --web`

- `endcap demo --url 127.0.0.1:8001`

**Exit code**: 0 without errors, 1 when an image failed or nothing was detected, 2 when it could not
run, 130 when interrupted (0 with --web).
"""

_ENSEMBLE = "detect"

_LOG_NAME = "server.log"


@command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the pictures and the server's log.")] = (
        Path("demo-output")
    ),
    images: Annotated[
        Path | None, typer.Option(help="Folder of images. Default: the shipped ones.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of a running server. Default: a server is started."),
    ] = None,
    model: Annotated[str, typer.Option(help="Name of the ensemble, with --url.")] = _ENSEMBLE,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a web page for uploads and the camera instead.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the web page; 0 picks a free one.")
    ] = 8080,
) -> None:
    """Start a Triton server, send it images, and draw the detections.

    Writes annotated pictures. The server listens on free ports of this machine and stops at the
    end.

    With --web it serves a page on this machine until Ctrl-C, and writes the server's log only.
    """
    console = PlainConsole(highlight=False)
    with stopped_by_signals(exit_code=0 if web else INTERRUPTED):
        paths = expand_images([str(images or find_repository() / SAMPLES)])
        drawn = [] if web else picture_paths(output, paths).values()
        targets = [output / _LOG_NAME, *drawn]
        refuse_to_overwrite(paths, targets, advice="give --output another folder")
        refuse_foreign(targets, advice="give --output another folder")
        make_folder(output)
        with contextlib.ExitStack() as resources:
            server_url = url or resources.enter_context(_started_server(output, console))
            if web:
                _serve_page(server_url, model, port, paths, console)
            results = _detect(server_url, model, paths, output, console)
    if not all(result.ok for result in results):
        problem = describe_failures(results)
    elif not any(result.predictions for result in results):
        problem = f"nothing was detected in any of {count(len(results), 'image')}"
    else:
        return
    log = "" if url else f"; the server's log is {output / _LOG_NAME}"
    say(f"endcap: {problem}{log}")
    raise typer.Exit(SOME_IMAGE_FAILED)


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
    server_url: str, model: str, paths: Sequence[Path], output: Path, console: Console
) -> list[ImageResult]:
    """Send each image once, print the results, and draw them."""
    pictures = PictureFolder(output, paths)
    with (
        DetectionClient(server_url, model=model, concurrency=1) as client,
        progress_bar("images", len(paths)) as advance,
    ):
        address = client.address
        console.print(f"Ready at {address}; sending {count(len(paths), 'image')}.\n", markup=False)

        def take(result: ImageResult) -> None:
            pictures.add(result, client.labels)
            advance()

        results = client.detect(paths, on_result=take)
    named = [dataclasses.replace(each, image=Path(each.image).name) for each in results]
    console.print(as_table(named, latency=True), crop=False)
    console.print(f"\n{summary(results)}", markup=False)
    written, *problems = pictures.summary()
    console.print(written, markup=False)
    for problem in problems:
        say(problem)
    return results
