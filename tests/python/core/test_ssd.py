"""Heads with anchors: SSD, RetinaNet and their kind, against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference import anchors, heads
from tests.reference.boxes import batched_nms
from tests.reference.heads import Candidate
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import ssd_outputs

forced_implementation = on_each_implementation("box_decode")

VARIANCES = (0.1, 0.1, 0.2, 0.2)
LEVELS = ((8.0, ((16.0, 16.0), (24.0, 12.0))), (20.5, ((40.0, 41.5),)))
GRID = "8:16x16,24x12;20.5:40x41.5"


def candidates(
    head: dict[str, np.ndarray],
    centres: np.ndarray,
    *,
    activation: str = "softmax",
    background: str = "first",
    score_threshold: float = 0.25,
    multi_label: bool = True,
    variances: tuple[float, ...] = VARIANCES,
) -> list[Candidate]:
    boxes = anchors.decode(head["boxes"], centres, variances).astype(np.float32)
    scores = heads.activated(head["scores"], activation, background)
    found: list[Candidate] = []
    for index, (box, row) in enumerate(zip(boxes, scores, strict=True)):
        found += heads.pick(
            box, row, index, score_threshold=score_threshold, multi_label=multi_label
        )
    return heads.best(found, 30000)[0]


def assert_candidates(actual: Any, expected: list[Candidate]) -> None:
    assert len(expected) > 5
    assert actual.indices.tolist() == [c.index for c in expected]
    assert actual.class_ids.tolist() == [c.class_id for c in expected]
    scores = np.array([c.score for c in expected], np.float32)
    np.testing.assert_allclose(actual.scores, scores, rtol=tolerances.ACTIVATION_RTOL)
    boxes = np.array([c.box for c in expected], np.float32)
    sides = np.maximum(np.abs(boxes).max(1, keepdims=True), 1)
    assert (np.abs(actual.boxes - boxes) <= tolerances.ANCHOR_BOX_RTOL * sides).all()


@pytest.mark.parametrize("background", ["first", "last", "none"])
@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "default"])
@pytest.mark.parametrize("multi_label", [True, False])
@pytest.mark.parametrize("score_threshold", [0.01, 0.25, 0.6])
def test_anchors_as_an_input(
    background: str, activation: str, multi_label: bool, score_threshold: float
) -> None:
    head = ssd_outputs(1, anchors=150, columns=5)
    if background == "last":
        head["scores"] = np.roll(head["scores"], -1, axis=1)
    expected = candidates(
        head,
        anchors.centres(head["anchors"].astype(np.float64)),
        activation={"default": "sigmoid" if background == "none" else "softmax"}.get(
            activation, activation
        ),
        background=background,
        score_threshold=score_threshold,
        multi_label=multi_label,
    )
    actual = endcap.box_decode(
        head,
        family="ssd",
        num_classes=5 if background == "none" else 4,
        background=background,
        activation=activation,
        score_threshold=score_threshold,
        multi_label=multi_label,
    )
    assert_candidates(actual, expected)


def test_anchors_as_centres_in_fractions() -> None:
    head = ssd_outputs(2, anchors=150, columns=5)
    sides = np.float32([320, 200, 320, 200])
    pixels = anchors.centres(head["anchors"].astype(np.float64))
    head["anchors"] = (pixels / sides).astype(np.float32)
    expected = candidates(head, head["anchors"].astype(np.float64) * sides)
    actual = endcap.box_decode(
        head,
        family="ssd",
        num_classes=4,
        box_format="cxcywh",
        box_unit="normalized",
        input_size=(200, 320),
    )
    assert_candidates(actual, expected)


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("variances", [(1.0, 1.0, 1.0, 1.0), (0.1, 0.2, 0.3, 0.4)])
def test_anchors_of_a_grid(offset: float, variances: tuple[float, ...]) -> None:
    centres = anchors.grid(LEVELS, 100, 130, offset=offset)
    head = ssd_outputs(3, anchors=len(centres), columns=4)
    expected = candidates(head, centres, variances=variances)
    del head["anchors"]
    actual = endcap.box_decode(
        head,
        family="ssd",
        num_classes=3,
        anchors="grid",
        anchor_grid=GRID,
        anchor_offset=offset,
        variances=variances,
        input_size=(100, 130),
    )
    assert_candidates(actual, expected)
    assert {c.index for c in expected} & set(range(len(centres) - 35, len(centres)))


def test_ssd300_has_8732_anchors() -> None:
    four, six = "1x1,1x1,1x1,1x1", "1x1,1x1,1x1,1x1,1x1,1x1"
    grid = f"8:{four};16:{six};32:{six};64:{six};100:{four};300:{four}"
    options = {"num_classes": 90, "anchors": "grid", "anchor_grid": grid, "input_size": 300}
    head = {"boxes": np.zeros((8732, 4), np.float32), "scores": np.zeros((8732, 91), np.float32)}
    endcap.Postprocessor("ssd", **options)(head)
    with pytest.raises(endcap.InvalidArgumentError, match="8732"):
        endcap.Postprocessor("ssd", **options)({n: a[:8000] for n, a in head.items()})


def test_boxes_that_are_decoded_already() -> None:
    head = ssd_outputs(4, anchors=80, columns=4)
    head["boxes"] = head.pop("anchors")
    scores = heads.activated(head["scores"], "softmax", "first")
    found = [
        candidate
        for index, (box, row) in enumerate(zip(head["boxes"], scores, strict=True))
        for candidate in heads.pick(box, row, index, score_threshold=0.25, multi_label=True)
    ]
    actual = endcap.box_decode(head, family="ssd", num_classes=3, anchors="none")
    assert_candidates(actual, heads.best(found, 30000)[0])


def test_a_box_grows_by_1000_sixteenths_at_most() -> None:
    head = ssd_outputs(5, anchors=3, columns=2)
    head["boxes"][:] = 1000
    head["scores"][:, 1] = 20
    found = endcap.box_decode(head, family="ssd", num_classes=1, variances=1)
    widths = (head["anchors"][:, 2] - head["anchors"][:, 0])[found.indices]
    np.testing.assert_allclose(found.boxes[:, 2] - found.boxes[:, 0], widths * 62.5, rtol=1e-3)


def test_classes_are_suppressed_apart() -> None:
    head = ssd_outputs(6, anchors=200, columns=4)
    head["boxes"] *= 0.1
    head["anchors"] = np.tile(head["anchors"][:20], (10, 1))
    ranked = candidates(head, anchors.centres(head["anchors"].astype(np.float64)))
    kept = batched_nms(
        np.stack([c.box for c in ranked]),
        np.array([c.score for c in ranked]),
        np.array([c.class_id for c in ranked]),
        0.5,
    )
    rows = endcap.Postprocessor("ssd", num_classes=3, iou_threshold=0.5)(head)[0]
    assert 5 < len(kept) < len(ranked)
    assert rows.indices.tolist() == [ranked[i].index for i in kept]


@pytest.mark.parametrize("name", ["boxes", "scores", "anchors"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_refused(name: str, value: float) -> None:
    head = ssd_outputs(7, anchors=60, columns=4)
    head["scores"][33, 2] = 30  # a candidate, so that its box is looked at
    head[name][33, 1] = value
    with pytest.raises(
        endcap.InvalidArgumentError, match=r"NaN at element|not finite|row 33 is inf"
    ):
        endcap.box_decode(head, family="ssd", num_classes=3)


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "no grid": {"anchors": "grid"},
    "no use for a grid": {"anchor_grid": GRID},
    "no sizes": {"anchors": "grid", "anchor_grid": "8"},
    "a size of one side": {"anchors": "grid", "anchor_grid": "8:16"},
    "no number": {"anchors": "grid", "anchor_grid": "8:16xq"},
    "a stride of 0": {"anchors": "grid", "anchor_grid": "0:16x16"},
    "a grid in fractions": {"anchors": "grid", "anchor_grid": GRID, "box_unit": "normalized"},
    "a variance of 0": {"variances": 0},
    "three variances": {"variances": (1, 2, 3)},
}


@pytest.mark.parametrize("fields", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_impossible_anchors_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"anchor|variances|box_unit"):
        endcap.Postprocessor("ssd", num_classes=3, **fields)


def test_parameters_read_back_as_they_were_written() -> None:
    fields = {"anchors": "grid", "anchor_grid": GRID, "variances": (0.1, 0.2, 0.3, 0.25)}
    written = endcap.Postprocessor("ssd", num_classes=3, **fields).parameters
    assert written["anchor_grid"] == GRID
    assert written["variances"] == "0.1,0.2,0.3,0.25"
    assert endcap.Postprocessor(**written).parameters == written
