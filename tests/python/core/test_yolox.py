"""YOLOX as its own exporter writes it: boxes relative to the cells of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference import heads
from tests.reference.heads import Candidate
from tests.support import family_networks as families
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.init_runs import plan_of
from tests.support.sample_heads import yolox_head

forced_implementation = on_each_implementation("box_decode")

SIZE = (96, 160)
P6 = (8, 16, 32, 64)


def decode(head: np.ndarray, **options: Any) -> Any:
    return endcap.box_decode(head, family="yolox", **{"input_size": SIZE, **options})


def assert_candidates(actual: Any, expected: list[Candidate]) -> None:
    assert len(expected) > 5
    assert actual.indices.tolist() == [each.index for each in expected]
    assert actual.class_ids.tolist() == [each.class_id for each in expected]
    np.testing.assert_array_equal(actual.scores, [each.score for each in expected])
    boxes = np.array([each.box for each in expected])
    sides = np.abs(boxes).max(axis=1, keepdims=True)
    assert (np.abs(actual.boxes - boxes) <= tolerances.ANCHOR_BOX_RTOL * sides).all()


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("num_classes", [1, 80])
@pytest.mark.parametrize("size", [SIZE, (100, 70)])
def test_boxes_are_relative_to_cells(
    size: tuple[int, int], num_classes: int, multi_label: bool
) -> None:
    head = yolox_head(1, size=size, num_classes=num_classes)
    found = heads.yolox(head, size=size, score_threshold=0.25, multi_label=multi_label)
    actual = decode(head, num_classes=num_classes, multi_label=multi_label, input_size=size)
    assert_candidates(actual, heads.best(found, 30000)[0])


def test_another_grid() -> None:
    head = yolox_head(2, size=SIZE, num_classes=3, strides=P6)
    grid = ";".join(f"{stride}:{stride}x{stride}" for stride in P6)
    found = heads.yolox(head, size=SIZE, score_threshold=0.25, strides=P6)
    actual = decode(head, num_classes=3, anchor_grid=grid)
    assert_candidates(actual, heads.best(found, 30000)[0])


def test_sizes_have_no_limit() -> None:
    """Of SSD's boxes they have one, 1000/16 times the anchor."""
    head = yolox_head(3, size=SIZE, num_classes=2)
    head[:, 2] = 7
    found = heads.yolox(head, size=SIZE, score_threshold=0.25)
    assert_candidates(decode(head, num_classes=2), heads.best(found, 30000)[0])


def test_a_size_that_float32_does_not_hold() -> None:
    head = yolox_head(4, size=SIZE, num_classes=2)
    head[7] = [0, 0, 100, 0, 1, 1, 0]
    with pytest.raises(endcap.InvalidArgumentError, match="candidate 7 is not finite"):
        decode(head, num_classes=2)
    head[7, 4] = 0  # no candidate
    assert 7 not in decode(head, num_classes=2).indices


@pytest.mark.parametrize("rows", [314, 316])
def test_a_head_of_another_grid_is_refused(rows: int) -> None:
    assert len(yolox_head(5, size=SIZE, num_classes=2)) == 315
    with pytest.raises(endcap.InvalidArgumentError, match=r"315, 7"):
        decode(np.zeros((rows, 7), np.float32), num_classes=2)


def test_a_grid_is_in_pixels() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="grid of anchors, which is in pixels"):
        endcap.Postprocessor("yolox", box_unit="normalized")


def test_init_finds_it(tmp_path: Path) -> None:
    plan = plan_of(families.yolox(), tmp_path, preset="ultralytics")
    assert (plan.head.family, plan.head.num_classes) == ("yolox", 4)
    assert plan.postprocess["activation"].value == "none"
    assert plan.postprocess["input_size"].value == "64,64"
    assert "box_format" not in plan.postprocess
