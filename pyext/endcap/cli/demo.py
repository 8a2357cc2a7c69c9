"""endcap demo: the shipped repository on a real server, with the shipped pictures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import endcap
from endcap.cli.failure import SOME_IMAGE_FAILED, one_sentence, say, stopped_by_signals
from endcap.cli.images import expand_images, make_folder, write_pictures
from endcap.cli.report import as_table, count, describe_failures
from endcap.client import DetectionClient, ImageResult
from endcap.errors import InvalidArgumentError
from endcap.server import ServerPorts, ServerSettings, TritonServer

EXAMPLES = """
**Examples**

- `endcap demo`

- `endcap demo --images photos --output pictures`
"""

# Inside a model's folder: Triton takes every folder of a repository for a model.
SAMPLES = Path("detect") / "samples"
_INTERRUPTED = 130


def demo(
    output: Annotated[
        Path, typer.Option(help="Folder for the pictures and the server's log.")
    ] = Path("demo-output"),
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of JPEG files. Else the shipped ones.", show_default=False),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")] = False,
) -> None:
    """Start a Triton server, send it JPEGs, and draw what it finds.

    Uses free ports of this machine, one request at a time over gRPC, and stops the server at the
    end. The times are those that a client sees.
    """
    console = Console(highlight=False)
    with one_sentence(verbose=verbose), stopped_by_signals(exit_code=_INTERRUPTED):
        repository = find_repository()
        paths = expand_images([str(images or repository / SAMPLES)])
        make_folder(output)
        settings = ServerSettings(
            ports=ServerPorts(http=0, grpc=0, metrics=0), log_file=output / "server.log"
        )
        console.print(f"Starting a Triton server on {repository} ...")
        with (
            TritonServer(repository, settings) as server,
            DetectionClient(server.grpc_url, concurrency=1) as client,
        ):
            console.print(f"Ready at {server.grpc_url}; sending {count(len(paths), 'JPEG')}.\n")
            results = client.detect(paths)
        console.print(as_table(_short_names(results), latency=True))
        written = write_pictures(results, output, client.labels)
    console.print(f"\n{_summary(results)}\n{count(len(written), 'picture')} in {output}/.")
    problem = _problem(results)
    if problem is not None:
        say(f"endcap: {problem}; the server's log is {output / 'server.log'}")
        raise typer.Exit(SOME_IMAGE_FAILED)


def find_repository() -> Path:
    """Returns the model repository of the source tree, else the one installed with the package."""
    roots = [Path(root) for root in endcap.__path__]
    sources = [root.parent.parent for root in roots if root.parent.name == "pyext"]
    for folder in (*sources, *roots):
        if (folder / "model_repository" / "detect").is_dir():
            return folder / "model_repository"
    raise InvalidArgumentError(
        f"no model_repository belongs to this installation of endcap (searched "
        f"{', '.join(map(str, roots))}); reinstall it with `pip install endcap`"
    )


def _short_names(results: Sequence[ImageResult]) -> list[ImageResult]:
    return [
        ImageResult(
            Path(result.image).name,
            result.status,
            result.detections,
            error=result.error,
            latency_ms=result.latency_ms,
        )
        for result in results
    ]


def _summary(results: Sequence[ImageResult]) -> str:
    times = [result.latency_ms for result in results if result.ok and result.latency_ms is not None]
    found = sum(len(result.detections) for result in results)
    if not times:
        return "No image was answered."
    return (
        f"{found} detections in {len(times)} images; "
        f"median {statistics.median(times):.1f} ms per image, from {min(times):.1f} to "
        f"{max(times):.1f} ms."
    )


def _problem(results: Sequence[ImageResult]) -> str | None:
    if not all(result.ok for result in results):
        return describe_failures(results)
    if not any(result.detections for result in results):
        return f"nothing was found in any of {len(results)} images"
    return None
