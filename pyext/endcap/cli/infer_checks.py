"""Options of `endcap infer` that do not go together, or not with the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from endcap.cli.compare import ReferenceBeside
from endcap.cli.infer_run import Client
from endcap.cli.kept_files import refuse_to_overwrite
from endcap.cli.report_form import Form
from endcap.client import Task
from endcap.errors import InvalidArgumentError


def check_stream(batch: int, *, stream: bool) -> None:
    """Raises InvalidArgumentError for batches of a stream."""
    if stream and batch > 1:
        raise InvalidArgumentError(
            f"--stream sends images one by one, so --batch {batch} cannot be had; "
            "leave one of the two out"
        )


def check_task(client: Client, form: Form, model: str, reference: ReferenceBeside | None) -> None:
    """Raises InvalidArgumentError for a report that the model's answers do not go into."""
    if form is Form.coco and client.task is not Task.detection:
        raise InvalidArgumentError(
            f"--coco holds detections, and model '{model}' answers with classes; "
            "give --json or --csv"
        )
    if reference is not None:
        reference.check_task(client.task)


def keep_inputs(inputs: Sequence[Path], output: Path | None) -> None:
    """Raises InvalidArgumentError for a report that would take the place of an input."""
    if output is not None:
        refuse_to_overwrite(inputs, [output], advice="give --output another file")
