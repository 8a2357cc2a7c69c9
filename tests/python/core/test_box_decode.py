"""Raw heads of every family -> candidates, against the definitions of reference/heads.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import heads
from tests.support import sample_heads as samples
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import FAMILIES, as_head

forced_implementation = on_each_implementation("box_decode")

BOX_FAMILIES = [each for each in FAMILIES if each != "classification"]


def head_tensors(head: Any) -> dict[str, np.ndarray]:
    return head if isinstance(head, dict) else {"head": head}


def head_options(family: str) -> dict[str, Any]:
    """The sample's parameters that box_decode has."""
    names = endcap.parameters.HeadParameters.__annotations__
    given = {k: v for k, v in FAMILIES[family].parameters.items() if k in names}
    return {"family": family, "num_classes": 7, **given}


def assert_candidates(
    actual: endcap.Candidates, expected: list[heads.Candidate], options: dict[str, Any]
) -> None:
    """Equal bit for bit, but for what a function such as exp or a scale was applied to."""
    family = options["family"]
    assert actual.indices.tolist() == [c.index for c in expected]
    assert actual.class_ids.tolist() == [c.class_id for c in expected]
    assert (actual.scores.dtype, actual.boxes.dtype) == (np.float32, np.float32)
    unit = heads.DEFAULTS.get(family.split("_")[0], ("none",))
    activation = options.get("activation", unit[0])
    rtol = 0.0 if activation == "none" else tolerances.ACTIVATION_RTOL
    scores = np.array([c.score for c in expected], np.float32)
    np.testing.assert_allclose(actual.scores, scores, rtol=rtol)
    boxes = np.array([c.box for c in expected], np.float32).reshape(-1, 4)
    error: Any = 0.0
    if FAMILIES[family].has_anchors:
        sides = np.maximum(np.abs(boxes).max(axis=1, keepdims=True, initial=0), 1)
        error = tolerances.ANCHOR_BOX_RTOL * sides
    elif options.get("box_unit", unit[-1]) == "normalized":
        error = tolerances.NORMALISED_BOX_RTOL * 640
    assert (np.abs(actual.boxes - boxes) <= error).all()


def yolov8(classes: int = 3, **options: Any) -> Any:
    return samples.yolov8_head(1, anchors=200, num_classes=classes, **options)


def joined() -> Any:
    parts = samples.rtdetr_outputs(2, queries=90, num_classes=7)
    return np.hstack([parts["boxes"], heads.sigmoid(parts["logits"])])


def ssd(columns: int, *, last: bool = False, **parts: Any) -> Any:
    """parts: other tensors in the place of the sample's; None for none."""
    head = samples.ssd_outputs(1, anchors=parts.pop("count", 150), columns=columns)
    if last:
        head["scores"] = np.roll(head["scores"], -1, axis=1)
    return {name: part for name, part in {**head, **parts}.items() if part is not None}


GRID = "8:16x16,24x12;20.5:40x41.5"
ON_GRID: dict[str, Any] = {"anchors": "grid", "anchor_grid": GRID, "input_size": (100, 130)}
P6 = (8, 16, 32, 64)
CORNERS = samples.ssd_outputs(1, anchors=150, columns=2)["anchors"]
FRACTIONS = np.hstack([(CORNERS[:, :2] + CORNERS[:, 2:]) / 2, CORNERS[:, 2:] - CORNERS[:, :2]])
FRACTIONS /= np.float32([320, 200, 320, 200])


def case(family: str, num_classes: int, head: Any, **parameters: Any) -> tuple[Any, ...]:
    return family, num_classes, head, parameters


def fractions(height: int, width: int) -> tuple[Any, ...]:
    """Boxes in fractions of the input."""
    size = {"box_unit": "normalized", "input_size": (height, width)}
    return case("yolov8", 3, yolov8() / np.float32([[width], [height]] * 2 + [[1]] * 3), **size)


def yolox(seed: int, classes: int, *size: int, **options: Any) -> tuple[Any, ...]:
    head = samples.yolox_head(seed, size=size, num_classes=classes, **options)
    return case("yolox", classes, head, input_size=size)


def rtdetr(seed: int, classes: int, **parameters: Any) -> tuple[Any, ...]:
    head = samples.rtdetr_outputs(seed, queries=200, num_classes=classes)
    return case("rtdetr", classes, head, **parameters)


def detr(background: str) -> tuple[Any, ...]:
    head = samples.rtdetr_outputs(3, queries=120, num_classes=6, columns=7)
    head["logits"] *= 2
    return case("rtdetr", 6, head, activation="softmax", background=background)


P6_GRID = ";".join(f"{s}:{s}x{s}" for s in P6)
OBB = samples.end2end_obb_head(4, rows=40, num_classes=7) / np.float32([160, 96] * 2 + [1] * 3)
YOLOV5_LOGITS = samples.yolov5_head(6, anchors=80, num_classes=3) * np.float32([1] * 4 + [8] * 4)
YOLOV8_LOGITS = yolov8() * np.float32([[1]] * 4 + [[12]] * 3)
YOLOV5_LOGITS[:, 4:] -= 3
YOLOV8_LOGITS[4:] -= 8
LARGE_YOLOX = yolox(3, 2, 96, 160)
LARGE_YOLOX[2][:, 2] = 7
# Name -> family, number of classes, the head of one image, parameters.
CASES: dict[str, tuple[Any, ...]] = {
    **{
        f"{family}, sample": case(head=FAMILIES[family].images(10)[9], **head_options(family))
        for family in BOX_FAMILIES
    },
    "yolov8, 1 class": case("yolov8", 1, yolov8(1)),
    "yolov8, 80 classes": case("yolov8", 80, yolov8(80)),
    "yolov8, ties": case("yolov8", 3, yolov8(levels=8)),
    "yolov8, logits": case("yolov8", 3, YOLOV8_LOGITS, activation="sigmoid"),
    "yolov8, corners": case("yolov8", 3, yolov8(), box_format="xyxy"),
    "yolov8, 480x640": fractions(480, 640),
    "yolov8, 300x199": fractions(300, 199),
    "yolov5, 1 class": case("yolov5", 1, samples.yolov5_head(2, anchors=200, num_classes=1)),
    "yolov5, 80 classes": case("yolov5", 80, samples.yolov5_head(2, anchors=200, num_classes=80)),
    "yolov5, logits": case("yolov5", 3, YOLOV5_LOGITS, activation="sigmoid"),
    "yolox, 80 classes": yolox(1, 80, 100, 70),
    "yolox, P6": case(
        *yolox(2, 3, 96, 160, strides=P6)[:3], input_size=(96, 160), anchor_grid=P6_GRID
    ),
    "yolox, sizes without SSD's limit": LARGE_YOLOX,
    "end2end_obb, 96x160": case("end2end_obb", 7, OBB, box_unit="normalized", input_size=(96, 160)),
    "efficient_nms, no row": case("efficient_nms", 7, samples.efficient_nms_outputs(0)),
    "efficient_nms, every row": case("efficient_nms", 7, samples.efficient_nms_outputs(20)),
    **{
        f"detections, background {background}": case(
            "detections", 6, samples.detections_outputs(2), background=background
        )
        for background in ("first", "last")
    },
    "rtdetr, 1 class": rtdetr(1, 1),
    "rtdetr, 80 classes, 480x640": rtdetr(1, 80, input_size=(480, 640)),
    "rtdetr, joined": case("rtdetr", 7, joined(), joined=True, activation="none"),
    "DETR, background first": detr("first"),
    "DETR, background last": detr("last"),
    **{
        f"ssd, background {background}, {activation}": case(
            "ssd",
            5 if background == "none" else 4,
            ssd(5, last=background == "last"),
            background=background,
            activation=activation,
        )
        for background in ("first", "last", "none")
        for activation in ("softmax", "sigmoid", "default")
    },
    "ssd, anchors as centres in fractions": case(
        "ssd",
        4,
        ssd(5, anchors=FRACTIONS),
        **{"box_format": "cxcywh", "box_unit": "normalized", "input_size": (200, 320)},
    ),
    "ssd, a grid": case("ssd", 3, ssd(4, count=477, anchors=None), **ON_GRID),
    "ssd, a grid of corners of cells": case(
        "ssd",
        3,
        ssd(4, count=477, anchors=None),
        **{**ON_GRID, "anchor_offset": 0.0, "variances": (0.1, 0.2, 0.3, 0.4)},
    ),
    "ssd, decoded boxes": case("ssd", 4, ssd(5, boxes=CORNERS, anchors=None), anchors="none"),
    "ssd, boxes of 62.5 anchors at most": case(
        "ssd", 4, ssd(5, boxes=np.full((150, 4), 1000, np.float32)), variances=1
    ),
}

THRESHOLDS = [0.3, 0.9, 0.0, 0.45, 1.0, 0.1, 0.6]
SELECTIONS: dict[str, dict[str, Any]] = {
    "best class": {"multi_label": False},
    "every class": {"multi_label": True},
    "low scores, few": {"score_threshold": 0.01, "max_candidates": 3},
    "high scores": {"score_threshold": 0.6},
    "classes": {"classes": [5, 0, 2]},
    "thresholds": {"score_thresholds": THRESHOLDS, "multi_label": False},
    "both": {"classes": [1, 3, 0], "score_thresholds": THRESHOLDS, "multi_label": True},
}
# Parameters of the tensors' shapes, which the definition takes from the tensors.
SAMPLE_SIZES = ("mask_coefficients", "prototype_size", "num_keypoints", "keypoint_values")


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, np.float32) for name in CASES), *((n, np.float16) for n in CASES if "sample" in n)],
)
def test_candidates_are_those_of_the_definition(name: str, dtype: type, selection: str) -> None:
    family, num_classes, head, parameters = CASES[name]
    given = {
        key: values.astype(dtype) if values.dtype == np.float32 else values
        for key, values in head_tensors(head).items()
    }
    wide = {
        key: values.astype(np.float32) if values.dtype == np.float16 else values
        for key, values in given.items()
    }
    options = {**parameters, "family": family, "num_classes": num_classes}
    chosen = {"score_threshold": 0.25, **SELECTIONS[selection]}
    filters: dict[str, Any] = {}
    if "classes" in chosen:
        filters["classes"] = [each for each in chosen.pop("classes") if each < num_classes]
    if "score_thresholds" in chosen:
        filters["score_thresholds"] = (chosen.pop("score_thresholds") * 12)[:num_classes]
        chosen["score_threshold"] = 0.0
    limit = chosen.pop("max_candidates", 30000)
    known = {k: v for k, v in options.items() if k not in SAMPLE_SIZES}
    found = heads.candidates(**known, tensors=wide, **chosen)
    expected, truncated = heads.best(heads.filter_classes(found, **filters), limit)
    assert expected or selection == "high scores" or "no row" in name
    actual = endcap.box_decode(given, **options, **chosen, **filters, max_candidates=limit)
    assert_candidates(actual, expected, options)
    assert actual.truncated == truncated


@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(["yolov8", "yolov5", "rtdetr", "ssd"]),
    anchors=st.integers(0, 40),
    num_classes=st.integers(1, 20),
    levels=st.sampled_from([0, 2, 4]),
    multi_label=st.booleans(),
    max_candidates=st.integers(1, 60),
    score_threshold=st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.875, 1.0]),
)
def test_scores_of_any_number(
    seed: int,
    family: str,
    anchors: int,
    num_classes: int,
    levels: int,
    max_candidates: int,
    **selection: Any,
) -> None:
    head = samples.yolov8_head(seed, anchors=anchors, num_classes=num_classes, levels=levels)
    tensors, options = as_head(family, head[:4].T, head[4:].T)
    options |= {"family": family, "num_classes": num_classes}
    found = heads.candidates(**options, tensors=tensors, **selection)
    expected, truncated = heads.best(found, max_candidates)
    actual = endcap.box_decode(tensors, **options, **selection, max_candidates=max_candidates)
    assert_candidates(actual, expected, options)
    assert actual.truncated == truncated


def test_a_head_of_several_tensors_may_be_a_tuple() -> None:
    outputs = samples.efficient_nms_outputs(13)
    options: dict[str, Any] = {"family": "efficient_nms", "num_classes": 7}
    actual = endcap.box_decode(tuple(outputs.values()), **options)
    assert_candidates(actual, heads.candidates(**options, tensors=outputs), options)


@pytest.mark.parametrize("family", ["yolov8", "yolov5", "rtdetr", "ssd", "end2end", "detections"])
def test_score_equal_to_the_threshold_is_dropped(family: str) -> None:
    above = np.nextafter(np.float32(0.25), np.float32(1))
    scores = np.float32([[0.25, 0], [above, 0], [0.2499, 0]])
    tensors, options = as_head(family, np.full((3, 4), 9, np.float32), scores)
    options |= {"family": family, "num_classes": 2}
    # The other class's threshold lets all three pass a check against the lowest one.
    for thresholds in ({"score_threshold": 0.25}, {"score_thresholds": [0.25, 0.1]}):
        assert endcap.box_decode(tensors, **options, **thresholds).indices.tolist() == [1]


def test_sigmoids_of_huge_logits_saturate() -> None:
    head = np.full((5, 2), 50, np.float32)
    head[4] = [1000, -1000]
    actual = endcap.box_decode(head, num_classes=1, activation="sigmoid", score_threshold=0.0)
    assert (actual.indices[0], actual.scores[0]) == (0, 1)
    assert len(actual.scores) == 1 or actual.scores[1] < 1e-30
    queries = samples.rtdetr_outputs(7, queries=60, num_classes=9)
    for value, count in ((np.inf, 9), (-np.inf, 0)):
        queries["logits"][5] = value
        found = endcap.box_decode(queries, family="rtdetr", num_classes=9, score_threshold=0.9)
        assert (found.scores[found.indices == 5] == 1).sum() == count


# --- on_nan


def row_parts(family: str, image: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Boxes, scores and extra values of each row, views of the image's tensors."""
    if "head" not in image:
        scores = image["logits"] if "logits" in image else image["scores"]
        return [image["boxes"], scores.reshape(len(image["boxes"]), -1), image["boxes"][:, :0]]
    rows = image["head"].T if family.startswith("yolov8") else image["head"]
    end = {"yolov8": 11, "end2end": 6}.get(family.split("_")[0], rows.shape[1])
    return [rows[:, :4], rows[:, 4:end], rows[:, end:]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("family", BOX_FAMILIES)
def test_rows_that_are_not_finite_are_dropped(family: str, dtype: type) -> None:
    random = np.random.default_rng(5)
    image = {
        name: values.astype(dtype) if values.dtype == np.float32 else values
        for name, values in FAMILIES[family].images(10)[9].items()
    }
    fields = head_options(family)
    clean = endcap.box_decode(image, **fields)
    parts = row_parts(family, image)
    count = int(image.get("num_detections", [len(parts[0])])[0])
    over = np.isin(np.arange(count), clean.indices)
    for row in random.permutation(count)[: count // 3]:
        values = parts[random.integers(3 if parts[2].size else 2)][row]
        values[random.integers(len(values))] = np.nan
    for row in random.permutation(count)[: count // 8]:
        parts[0][row, random.integers(2)] = random.choice([-np.inf, np.inf])
    dropped = heads.dropped_rows(*(part[:count] for part in parts), over)
    assert len(dropped) <= count / 2
    assert 0 < over[dropped].sum() < over.sum()
    actual = endcap.box_decode(image, **fields, on_nan="drop")
    kept = ~np.isin(clean.indices, dropped)
    for name in ("boxes", "scores", "class_ids", "indices"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(clean, name)[kept])
    assert actual.dropped == len(dropped)
    with pytest.raises(endcap.InvalidArgumentError):
        endcap.box_decode(image, **fields)


@pytest.mark.parametrize("multi_label", [False, True])
def test_numbers_that_are_not_finite_and_do_no_harm_stay(multi_label: bool) -> None:
    head = samples.yolov8_head(6, anchors=50, num_classes=3)
    head[4:] = head[4:] * 12 - 8
    head[4, ::5] = -np.inf
    head[5, ::7] = np.inf
    head[0, np.flatnonzero((head[4:] < -3).all(0))] = np.inf
    fields: dict[str, Any] = {"num_classes": 3, "activation": "sigmoid", "multi_label": multi_label}
    expected = endcap.box_decode(head, **fields)
    actual = endcap.box_decode(head, **fields, on_nan="drop")
    assert actual.dropped == 0
    assert (actual.scores == 1).any()
    np.testing.assert_array_equal(actual.indices, expected.indices)


def test_scores_that_are_not_defined_drop_their_rows() -> None:
    rows = np.float32([[9, 9, 4, 4, 0, np.inf], [9, 9, 4, 4, 1, 0.5], [9, 9, 4, 4, np.inf, 0.5]])
    head = np.vstack([rows, rows[1:2]])
    actual = endcap.box_decode(head, family="yolov5", num_classes=1, on_nan="drop")
    assert (actual.indices.tolist(), actual.dropped) == ([1, 3], 2)
    logits = np.float32([[np.inf, 0], [2, 0], [-np.inf, -np.inf], [-np.inf, 2]])
    actual = endcap.box_decode(
        {"logits": logits, "boxes": np.full((4, 4), 0.5, np.float32)},
        family="rtdetr",
        num_classes=2,
        activation="softmax",
        on_nan="drop",
    )
    assert (actual.indices.tolist(), actual.dropped) == ([3, 1], 2)


def test_an_image_of_which_more_than_half_is_not_finite_fails() -> None:
    head = samples.yolov8_head(7, anchors=41, num_classes=2)
    clean = endcap.box_decode(head, num_classes=2)
    head[5, :20] = np.nan
    actual = endcap.box_decode(head, num_classes=2, on_nan="drop")
    assert actual.dropped == 20
    assert actual.indices.tolist() == [index for index in clean.indices if index >= 20]
    head[0, 20] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match="21 of 41 anchors"):
        endcap.box_decode(head, num_classes=2, on_nan="drop")


def test_the_next_candidates_take_the_places_of_dropped_ones() -> None:
    head = np.full((5, 12), 9, np.float32)
    head[4] = np.linspace(0.9, 0.3, 12)
    head[0, :3] = np.inf
    actual = endcap.box_decode(head, num_classes=1, max_candidates=4, on_nan="drop")
    assert actual.indices.tolist() == [3, 4, 5, 6]
    assert (actual.truncated, actual.dropped) == (True, 3)
