"""fn.endcap.nms: the indices that endcap.nms and endcap.batched_nms keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import build, run

COUNTS = [200, 1, 0, 57, 1000]


def candidates(seed: int, count: int) -> tuple[npt.NDArray[Any], ...]:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 300, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(1, 120, (count, 2))])
    scores = np.round(random.uniform(0, 1, count), 2)  # with ties
    ids = random.integers(0, 5, count)
    return boxes.astype(np.float32), scores.astype(np.float32), ids.astype(np.int32)


BATCH = [candidates(seed, count) for seed, count in enumerate(COUNTS)]
BOXES, SCORES, IDS = (list(column) for column in zip(*BATCH, strict=True))


def suppress(*inputs: list[Any], **fields: Any) -> list[Any]:
    named = {f"input_{i}": samples for i, samples in enumerate(inputs)}
    [kept] = run(lambda **n: fn.endcap.nms(*n.values(), **fields), named)
    return kept


def test_kept_as_endcap_nms() -> None:
    iou_threshold = 0.45
    kept = suppress(BOXES, SCORES, iou_threshold=iou_threshold)
    by_class = suppress(BOXES, SCORES, IDS, iou_threshold=iou_threshold)
    for i, (boxes, scores, ids) in enumerate(BATCH):
        assert kept[i].dtype == np.int64
        np.testing.assert_array_equal(kept[i], endcap.nms(boxes, scores, iou_threshold))
        wanted = endcap.batched_nms(boxes, scores, ids, iou_threshold)
        np.testing.assert_array_equal(by_class[i], wanted)


def test_max_detections() -> None:
    limit = 10
    limited = suppress(BOXES, SCORES, max_detections=limit, iou_threshold=0.5)
    whole = suppress(BOXES, SCORES, iou_threshold=0.5)
    for some, all_kept in zip(limited, whole, strict=True):
        np.testing.assert_array_equal(some, all_kept[:limit])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((BOXES[0][:, :3].copy(), SCORES[0]), "sample 0: give boxes as float"),
        ((BOXES[0], SCORES[0][1:]), "sample 0: give scores as float"),
        ((BOXES[0], SCORES[0], IDS[0][1:]), "sample 0: give class_ids as int32"),
        ((BOXES[0], SCORES[0] * np.float32(np.nan)), "image index 0 of 1: .*NaN|nan"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_cannot_be_used(inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        suppress(*([sample] for sample in inputs))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"iou_threshold": 1.5}, "iou_threshold is 1.5"),
        ({"max_detections": -2}, "max_detections is -2: give how many"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_used_are_refused_at_the_build(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        build(lambda boxes, scores: fn.endcap.nms(boxes, scores, **fields), ["boxes", "scores"], 1)
    assert "image index" not in str(raised.value)
