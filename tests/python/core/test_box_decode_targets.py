"""Raw heads by every instruction set, where a vector scan could differ from the scalar one.

tests/fuzz/heads.cc compares heads of any size; test_box_decode.py holds both to the definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.forced_implementations import run_on_scalar_and_targets

# Several blocks of every target's scan, in most of which no score passes.
MANY = 1300
FAMILIES = ["yolov8", "yolov5"]


def decode(head: Any, **options: Any) -> Any:
    """The candidates, or the error's message."""
    try:
        found = endcap.box_decode(head, **options)
    except endcap.InvalidArgumentError as error:
        return str(error)
    columns = (found.boxes, found.scores, found.class_ids, found.indices)
    return [each.tobytes() for each in columns], found.truncated, found.dropped


def compare(head: Any, **options: Any) -> Any:
    """Return what every target gives."""
    scalar, others = run_on_scalar_and_targets("box_decode", lambda: decode(head, **options))
    for other in others:
        assert other == scalar
    return scalar


def make_head(
    family: str, anchors: int, classes: int, over: float, seed: int = 0
) -> tuple[np.ndarray, dict[str, Any]]:
    """A head with its parameters: about `over` in 1 of its numbers pass the threshold."""
    random = np.random.default_rng(seed)
    shape = (anchors, 5 + classes) if family == "yolov5" else (4 + classes, anchors)
    part = random.integers(1, 1001, shape) / 1000
    head = np.where(random.random(shape) < over, 0.25 + part, 0.25 - part)
    return head.astype(np.float32), {"family": family, "num_classes": classes}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("anchors", [2047, 2048, 2049, 4100])
@pytest.mark.parametrize("family", FAMILIES)
def test_heads_beyond_a_tile(family: str, anchors: int, dtype: Any) -> None:
    for over in (0.0, 0.001, 0.3):
        head, options = make_head(family, anchors, 11, over)
        for activation in ("none", "sigmoid"):
            for multi_label in (False, True):
                options |= {"activation": activation, "multi_label": multi_label}
                compare(head.astype(dtype), **options)


@pytest.mark.parametrize("activation", ["none", "sigmoid"])
@pytest.mark.parametrize("threshold", [0.0, 1e-300, 1e-40, 1e-7, 0.25, 1 / 3, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_one_score_about_the_threshold(family: str, threshold: float, activation: str) -> None:
    """The threshold and its neighbours, at any place of a head of no other candidates."""
    _, options = make_head(family, 0, 2, 0)
    options |= {"activation": activation, "score_threshold": threshold}
    with np.errstate(divide="ignore"):
        logit = np.log(threshold / (1 - np.float64(threshold)))
    limit = np.float32(logit if activation == "sigmoid" else threshold)
    if not np.isfinite(limit):
        return
    for dtype in (np.float32, np.float16):
        exact = dtype(limit)
        near = [exact, np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))]
        low = min(exact, 0) - 3 if activation == "sigmoid" else -0.0
        for anchor in range(0, MANY, 13):
            head = np.full((MANY, 7) if family == "yolov5" else (6, MANY), low, dtype)
            rows = head if family == "yolov5" else head.T
            if family == "yolov5":
                rows[anchor, 4] = 40 if activation == "sigmoid" else 1
            rows[anchor, -1 - anchor % 2] = near[anchor % 3]
            found = compare(head, **options)
            if activation == "none":
                assert len(found[0][1]) == 4 * bool(float(near[anchor % 3]) > threshold)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (np.float32, [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0xFFFFFFFF]),
        (np.float16, [0x7E00, 0xFE00, 0x7C01, 0xFC01, 0xFFFF]),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_nan_is_named(family: str, dtype: Any, bits: list[int]) -> None:
    """With either sign, quiet and signalling, where no score passes."""
    clean, options = make_head(family, MANY, 2, 0)
    for place in range(0, clean.size, 19):
        head = clean.astype(dtype)
        head.view(f"u{head.itemsize}").flat[place] = bits[place % 5]
        options |= {"multi_label": place % 3 == 0}
        options["activation"] = ("none", "sigmoid")[place % 2]
        assert compare(head, **options) == f"head is NaN at element {place}"


@pytest.mark.parametrize("activation", ["none", "sigmoid"])
def test_every_half_is_read_alike(activation: str) -> None:
    """As the one score of an anchor, and alone in a block of the widest vectors' scan."""
    halves = np.arange(0x10000, dtype=np.uint16).view(np.float16)
    head = np.ones((5, 0x10000), np.float16)
    head[4] = halves
    limits = {"score_threshold": 0.0, "max_candidates": 1 << 16, "activation": activation}
    assert "NaN" in compare(head, num_classes=1, **limits)
    assert len(compare(head[:, :0x7C00], num_classes=1, **limits)[0][1]) > 4 * 0x7000
    space, anchors, classes = 256, 4096, 16
    numbers = halves[~np.isnan(halves)]
    for first in range(0, len(numbers), classes * anchors // space):
        some = numbers[first : first + classes * anchors // space]
        scores = np.full(classes * anchors, 0.0625 if activation == "none" else -5, np.float16)
        scores[np.arange(len(some)) * space + np.arange(len(some)) * 37 % space] = some
        head = np.vstack([np.ones((4, anchors), np.float16), scores.reshape(classes, anchors)])
        compare(head, num_classes=classes, activation=activation)


@pytest.mark.parametrize("activation", ["none", "sigmoid", "softmax"])
@pytest.mark.parametrize("background", ["none", "first", "last"])
@pytest.mark.parametrize("family", ["rtdetr", "ssd"])
def test_rows_just_over_the_threshold(family: str, background: str, activation: str) -> None:
    """Every score that occurs, and its lower neighbour, as the threshold."""
    random = np.random.default_rng(3)
    columns = 2 + (background != "none")
    logits = random.normal(0, 8, (40, columns)).astype(np.float32)
    head = {"logits" if family == "rtdetr" else "scores": logits}
    head |= {"boxes": random.normal(0, 2, (40, 4)).astype(np.float32)}
    if family == "ssd":
        head["anchors"] = random.normal(0, 2, (40, 4)).astype(np.float32)
    options = {"family": family, "num_classes": 2, "background": background}
    options |= {"activation": activation, "max_candidates": 1000}
    scores = endcap.box_decode(head, **options, score_threshold=0.0).scores
    assert len(scores) > 20
    for score in scores[scores <= 1]:
        assert len(compare(head, **options, score_threshold=float(score))[0][1]) < len(scores) * 4
        below = float(np.nextafter(score, np.float32(0)))
        assert compare(head, **options, score_threshold=below)[0][1]
