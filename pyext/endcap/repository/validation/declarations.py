"""What Triton asks of a configuration before any backend sees it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from endcap.repository.validation.finding import Finding, Severity
from endcap.repository.validation.model import Model, enum_name
from endcap.repository.validation.tensors import SIDES
from endcap.triton.config_text import Block
from endcap.triton.installation import gpu_count

_NOT_COMPLETING = ("python", "")  # "" is an ensemble's


def check_declarations(model: Model) -> Iterator[Finding]:
    """Tensors, batch sizes and instance groups as they are written."""
    for side in SIDES:
        yield from _check_tensors(model, side)
    yield from _check_batching(model)
    yield from _check_parameters(model)
    yield from _check_instances(model)


def _check_tensors(model: Model, side: str) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, entry in enumerate(getattr(model.config, side)):
        block = model.lines.nth(side, index)
        line = block.line_of("name")
        if entry.name in seen:
            yield model.warning(
                line,
                f"{side} {entry.name} is declared a second time, after line {seen[entry.name]}",
                "leave one of the two",
            )
        seen[entry.name] = line
        if not model.stage:  # else they are compared with what they have to be
            yield from _check_tensor(model, side, entry, block)


def _check_tensor(model: Model, side: str, entry: Any, block: Block) -> Iterator[Finding]:
    if not entry.name:
        yield model.error(block.line, f"an {side} has no name", "name it")
    if any(dim == 0 or dim < -1 for dim in entry.dims):
        yield model.error(
            block.line_of("dims"),
            f"{side} {entry.name} has dims {list(entry.dims)}",
            "give whole numbers from 1, or -1 for a size that varies",
        )
    given = {"data_type": entry.data_type != 0, "dims": len(entry.dims) > 0}
    lacking = [field for field, is_given in given.items() if not is_given]
    if lacking and model.backend in _NOT_COMPLETING:
        yield model.error(
            block.line,
            f"{side} {entry.name} has no {' and no '.join(lacking)}",
            "give it; nothing completes it",
        )


def _check_batching(model: Model) -> Iterator[Finding]:
    largest = model.config.max_batch_size
    if largest < 0:
        yield model.error(
            model.lines.line_of("max_batch_size"),
            f"max_batch_size is {largest}",
            "give the largest batch, or 0 for tensors without a batch dimension",
        )
        return
    block = model.lines.nth("dynamic_batching", 0)
    sizes = [*model.config.dynamic_batching.preferred_batch_size]
    if any(not 0 < size <= largest for size in sizes):
        yield model.error(
            block.line_of("preferred_batch_size"),
            f"preferred_batch_size is {sizes}, and max_batch_size {largest}",
            "give sizes from 1 to max_batch_size",
        )


def _check_parameters(model: Model) -> Iterator[Finding]:
    for key, entries in model.lines.entries("parameters").items():
        for earlier, later in itertools.pairwise(entries):
            yield model.warning(
                later.line,
                f"parameter {key} is given a second time; line {earlier.line} does not count",
                "leave one of the two",
            )


def _check_instances(model: Model) -> Iterator[Finding]:
    for index, group in enumerate(model.config.instance_group):
        if enum_name(group, "kind") != "KIND_GPU":
            continue
        line = model.lines.nth("instance_group", index).line_of("kind")
        if gpu_count() == 0:
            yield model.finding(
                Severity.NOTE,
                line,
                "the model asks for a GPU, and this machine has none",
                "serve it on a machine with a GPU, or leave instance_group out: Triton then takes "
                "a GPU where there is one",
            )
