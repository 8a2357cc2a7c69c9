"""Comparison of a network's outputs for several images with those for one, in the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import RepositoryError

Outputs = Mapping[str, NDArray[Any]]  # outputs by name, with the batch dimension

# Two outputs for one image are the same but for the order of sums, and of rows with nearly equal
# scores: at most this share of their numbers is further apart than that, absolutely and relatively.
_DIFFERING_SHARE = 0.05
_SAME_WITHIN = 0.02
# Of the numbers of an image that stand out from filled-up rows. In a row that the network leaves
# out all of them differ; a detection that is only now above a threshold is a few.
_LOST_SHARE = 0.5
# How ONNX Runtime, C++ and Python say that an allocation failed.
OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation", "MemoryError")
_SUPPRESSION = "NonMaxSuppression"
# Operators of networks that may do for a part of a batch what they do for an image.
_BY_IMAGE = (
    *(_SUPPRESSION, "NonZero", "TopK", "ScatterND", "ScatterElements"),
    *("If", "Loop", "Scan"),
)


class _BatchShapeError(RepositoryError):
    """An output does not have a row for each image."""


@dataclass(frozen=True)
class LargestBatch:
    """How many images a network takes at once, and why no more; "" where it takes all."""

    images: int
    reason: str = ""


def needs_full_batch(model: Any) -> bool:
    """Return whether the graph of an onnx.ModelProto may treat some images of a batch only."""
    return any(node.op_type in _BY_IMAGE for node in model.graph.node)


def find_largest_batch(
    run: Callable[[NDArray[Any]], Outputs], image: NDArray[Any], one: Outputs, most: int
) -> LargestBatch:
    """Return how many copies of an image a network treats like one.

    Args:
        run: Runs the network on a batch.
        image: A batch of one.
        one: What it gives for that.
        most: How many there may be, at least 2.
    """
    count, reason = most, ""
    while True:
        try:
            same = _count_same_rows(one, run(np.repeat(image, count, axis=0)), count)
        except RepositoryError as error:
            reason = explain_failure(error, count)
            if count == 2:
                return LargestBatch(1, reason)
            count = max(2, count // 2)
            continue
        if same == count:
            return LargestBatch(count, reason)
        reason = f"in a batch of {count} equal images only {same} get the same outputs"
        if same == 1:
            return LargestBatch(1, reason)
        count = same


def explain_failure(error: RepositoryError, count: int) -> str:
    """Return why a network does not take a batch of `count` images, for people."""
    if isinstance(error, _BatchShapeError):
        return str(error)
    reason = f"the trial run fails with {count} images at once"
    if any(text in str(error) for text in OUT_OF_MEMORY):
        reason += " for lack of memory, of which --trial-memory gives it more"
    return reason


def _count_same_rows(one: Outputs, many: Outputs, count: int) -> int:
    """Return how many images at the beginning of a batch of equal ones have the first's outputs."""
    same = count
    check_shapes(one, many, count)
    for array in many.values():
        if array.dtype.kind not in "biuf" or not array.ndim:
            continue
        rows = array.astype(np.float64).reshape(count, -1)
        first = np.sort(rows[0])
        same = next((n for n in range(1, same) if _is_lost(first, np.sort(rows[n]))), same)
    return same


def _is_lost(first: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    values, counts = np.unique(first, return_counts=True)
    if not len(values):
        return False
    fill = values[counts.argmax()]
    counted = (first != fill) | (other != fill)
    if first.size == 1:  # a number of detections, for example
        counted[:] = True
    is_close = np.isclose(first, other, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
    differing = np.count_nonzero(~is_close & counted)
    return bool(differing > _LOST_SHARE * np.count_nonzero(counted))


def is_blind(outputs: Outputs) -> bool:
    """Return whether an output is the same number everywhere, as without any detection."""
    return any(
        array.dtype.kind in "biuf" and array.size > 1 and not np.ptp(array.astype(np.float64))
        for array in outputs.values()
    )


def nms_box_tensors(model: Any) -> list[str]:
    """Return the boxes [batch, boxes, 4] of the NonMaxSuppression nodes of an onnx.ModelProto."""
    nodes = (node for node in model.graph.node if node.op_type == _SUPPRESSION)
    return list(dict.fromkeys(node.input[0] for node in nodes))


def check_shapes(one: Outputs, many: Outputs, count: int) -> None:
    """Raise RepositoryError unless `count` images give `count` times the rows of one."""
    for name, array in one.items():
        shape = (count * array.shape[0], *array.shape[1:]) if array.ndim else ()
        if many[name].shape != shape:
            raise _BatchShapeError(
                f"{name} is {list(array.shape)} for one image and {list(many[name].shape)} for "
                f"{count}"
            )


def find_mixed_images(alone: tuple[Outputs, Outputs], both: Outputs, path: str) -> str:
    """Return a message where an image's numbers depend on the other image of its batch, else ""."""
    for name, pair in both.items():
        if pair.ndim == 0 or pair.dtype.kind != "f":
            continue
        for number, outputs in enumerate(alone):
            one, other = (np.sort(each[0], axis=None) for each in (outputs[name], pair[number:]))
            is_close = np.isclose(one, other, rtol=_SAME_WITHIN, atol=_SAME_WITHIN, equal_nan=True)
            if np.mean(~is_close) > _DIFFERING_SHARE:
                return (
                    f"{path} mixes the images of a batch: {name} of an image is another "
                    "next to a second image than alone; export it for evaluation, not for "
                    "training, or give --max-batch 1"
                )
    return ""
