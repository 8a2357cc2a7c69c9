"""Asks a server for images, by whichever client, and takes what comes until all is answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from endcap.cli.compare import ReferenceBeside
from endcap.cli.infer_loop import LoopClient
from endcap.cli.pictures import PictureFolder
from endcap.client import ClientArguments, DetectionClient, ImageResult
from endcap.terminal.failure import StopRequested
from endcap.terminal.progress import progress_bar

Client = DetectionClient | LoopClient


def open_client(arguments: ClientArguments, *, use_asyncio: bool) -> Client:
    """Return a client of either kind."""
    if use_asyncio:
        return LoopClient(arguments)
    return DetectionClient.from_arguments(arguments)


def detect(
    client: Client,
    paths: Sequence[Path],
    pictures: PictureFolder | None,
    reference: ReferenceBeside | None,
    *,
    stream: bool,
) -> Sequence[ImageResult]:
    """Return what was answered, in the order of `paths`: all, unless a signal came in between."""
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
            if stream:
                return _streamed(client, paths, take)
            return client.detect(paths, on_result=take)
        except StopRequested:
            positions = {str(path): position for position, path in enumerate(paths)}
            return sorted(answered, key=lambda result: positions[result.image])


def _streamed(
    client: Client, paths: Sequence[Path], take: Callable[[ImageResult], None]
) -> list[ImageResult]:
    results = []
    for result in whole_results(client.detect_stream(paths)):
        results.append(result)
        take(result)
    return results


def whole_results(parts: Iterable[ImageResult]) -> Iterator[ImageResult]:
    """Put the responses of a decoupled model together, those to one image into one result.

    Args:
        parts: In the order of the images; the last one of each image is `final`. An image of which
            one response failed has failed.
    """
    so_far: list[ImageResult] = []
    for part in parts:
        so_far.append(part)
        if part.final:
            yield _together(so_far)
            so_far = []


def _together(parts: Sequence[ImageResult]) -> ImageResult:
    failed = next((part for part in parts if not part.ok), None)
    if len(parts) == 1 or failed is not None:
        return failed or parts[0]
    return dataclasses.replace(
        parts[-1],
        detections=[each for part in parts for each in part.detections],
        classes=[each for part in parts for each in part.classes],
    )
