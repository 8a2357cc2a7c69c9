"""What a model of preprocess with an input `rois` asks of its config."""

from __future__ import annotations

from collections.abc import Iterator

from endcap.repository.validation.finding import Finding, Severity
from endcap.repository.validation.model import Model, enum_name

_REMEDY = "give instance_group { kind: KIND_CPU }"


def check_rois(model: Model) -> Iterator[Finding]:
    """No batches, and instances on the CPU alone: the load fails otherwise."""
    if model.config.max_batch_size > 0:
        yield model.error(
            model.lines.line_of("max_batch_size"),
            f"max_batch_size is {model.config.max_batch_size} in a model with input rois, and "
            "images have different numbers of regions",
            "give max_batch_size: 0",
        )
    kinds = [enum_name(group, "kind") for group in model.config.instance_group] or ["KIND_AUTO"]
    if "KIND_GPU" in kinds:
        line = model.lines.nth("instance_group", kinds.index("KIND_GPU")).line_of("kind")
        yield model.error(line, "a model with input rois works on the CPU only", _REMEDY)
    elif "KIND_AUTO" in kinds:
        yield model.finding(
            Severity.WARNING,
            model.lines.line_of("instance_group"),
            "a model with input rois works on the CPU only, and Triton takes a GPU where there is "
            "one: the load fails there",
            _REMEDY,
        )
