"""What a model of preprocess with an input `rois` asks of its config."""

from __future__ import annotations

from collections.abc import Iterator

from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import Model


def check_rois(model: Model) -> Iterator[Finding]:
    """No batches: the load fails otherwise."""
    if model.config.max_batch_size > 0:
        yield model.error(
            model.lines.line_of("max_batch_size"),
            f"max_batch_size is {model.config.max_batch_size} in a model with input rois, and "
            "images have different numbers of regions",
            "give max_batch_size: 0",
        )
