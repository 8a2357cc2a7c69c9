"""Options of `endcap infer` that do not go together, or not with the model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from endcap.cli.compare import ReferenceBeside
from endcap.cli.infer_run import Client
from endcap.cli.overwrite_check import model_files, refuse_to_overwrite
from endcap.cli.pictures import picture_paths
from endcap.cli.report_form import Form
from endcap.client import Task
from endcap.errors import InvalidArgumentError


def check_stream(batch: int, *, stream: bool) -> None:
    """Raise InvalidArgumentError for batches of a stream."""
    if stream and batch > 1:
        raise InvalidArgumentError(
            f"--stream sends images one by one, so --batch {batch} cannot be had; "
            "leave one of the two out"
        )


def check_task(client: Client, form: Form, model: str, reference: ReferenceBeside | None) -> None:
    """Raise InvalidArgumentError for a report that the model's answers do not go into."""
    if form is Form.coco and client.task is not Task.detection:
        raise InvalidArgumentError(
            f"--coco holds detections, and model '{model}' answers with classes; "
            "give --json or --csv"
        )
    if reference is not None:
        reference.check_task(client.task)


def keep_inputs(
    inputs: Sequence[Path],
    images: Sequence[Path],
    *,
    repository: Path | None,
    output: Path | None,
    draw: Path | None,
) -> None:
    """Raise InvalidArgumentError where the report or a picture would take the place of an input.

    Args:
        inputs: The files that are read beside the images.
        repository: Of --compare, whose models are read.
        draw: The folder of the pictures; that none of them replaces an image, PictureFolder sees
            to.
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
