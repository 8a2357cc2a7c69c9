"""The parameters classes and score_thresholds of every head family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference import heads
from tests.reference.heads import Candidate
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import FAMILIES

forced_implementation = on_each_implementation("box_decode")

THRESHOLDS = [0.3, 0.9, 0.0, 0.45, 1.0, 0.1, 0.6]
FILTERS: dict[str, dict[str, Any]] = {
    "classes": {"classes": [5, 0, 2]},
    "thresholds": {"score_thresholds": THRESHOLDS},
    "both": {"classes": [1, 3], "score_thresholds": THRESHOLDS},
}
# Four classes of three anchors, whose boxes are the same; yolov8's columns.
SCORES = np.array([[0.9, 0.8, 0.0, 0.0], [0.5, 0.7, 0.0, 0.0], [0.1, 0.2, 0.0, 0.6]], np.float32)
HEAD = np.vstack([np.full((4, 3), 50, np.float32), SCORES.T])


def decode(head: Any, **parameters: Any) -> endcap.Candidates:
    return endcap.box_decode(head, num_classes=parameters.pop("num_classes", 7), **parameters)


def rows(found: endcap.Candidates) -> list[tuple[int, int, float, list[float]]]:
    columns = (found.indices, found.class_ids, found.scores, found.boxes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("filter_name", FILTERS)
@pytest.mark.parametrize("max_candidates", [3, 30000])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "classification"])
def test_candidates_of_every_family(
    family: str, multi_label: bool, dtype: Any, max_candidates: int, filter_name: str
) -> None:
    sample = FAMILIES[family]
    outputs = {
        name: values.astype(dtype) if values.dtype == np.float32 else values
        for name, values in sample.images(2)[1].items()
    }
    names = set(endcap.parameters.HeadParameters.__annotations__)
    options = {name: value for name, value in sample.parameters.items() if name in names}
    options |= {"family": family, "multi_label": multi_label}
    everything = decode(outputs, score_threshold=0.0, **options)
    candidates = [
        Candidate(box, score, int(class_id), int(index))
        for box, score, class_id, index in zip(
            everything.boxes,
            everything.scores,
            everything.class_ids,
            everything.indices,
            strict=True,
        )
    ]
    given = FILTERS[filter_name]
    kept = heads.filter_classes(candidates, **given)
    expected, truncated = heads.best(kept, max_candidates)
    assert 0 < len(kept) < len(candidates)
    actual = decode(outputs, score_threshold=0.0, max_candidates=max_candidates, **given, **options)
    assert rows(actual) == [(c.index, c.class_id, float(c.score), c.box.tolist()) for c in expected]
    assert actual.truncated == truncated


def test_an_anchor_whose_best_class_is_left_out_gives_no_candidate() -> None:
    found = decode(HEAD, num_classes=4, classes=[1])
    assert (found.indices.tolist(), found.class_ids.tolist()) == ([1], [1])
    found = decode(HEAD, num_classes=4, classes=[1], multi_label=True)
    assert (found.indices.tolist(), found.class_ids.tolist()) == ([0, 1], [1, 1])


def test_a_class_threshold_does_not_choose_the_best_class() -> None:
    thresholds = [0.95, 0.1, 0.1, 0.1]
    found = decode(HEAD, num_classes=4, score_thresholds=thresholds)
    assert (found.indices.tolist(), found.class_ids.tolist()) == ([1, 2], [1, 3])


def test_a_class_left_out_neither_suppresses_nor_fills_max_candidates() -> None:
    options = {"num_classes": 4, "class_agnostic": True, "max_candidates": 1}
    result = endcap.Postprocessor("yolov8", **options, classes=[3])(HEAD)
    assert result.num_detections.tolist() == [1]
    assert result.class_ids[0, 0] == 3
    assert not result.truncated[0]


def test_a_score_of_exactly_its_class_threshold_is_not_over_it() -> None:
    found = decode(HEAD, num_classes=4, score_thresholds=[float(SCORES[0, 0]), 0, 0, 0])
    assert found.indices.tolist() == [1, 2]


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_a_classifier_returns_the_best_of_the_classes(activation: str) -> None:
    logits = np.array([[0.5, 3, 2, -1, 1]], np.float32)
    result = endcap.Postprocessor(
        "classification", num_classes=5, top_k=4, classes=[4, 0, 2], activation=activation
    )(logits)
    assert result.class_ids.tolist() == [[2, 4, 0, -1]]
    assert result.scores.tolist() == [[*result.probabilities[0, [2, 4, 0]].tolist(), 0.0]]
    assert np.count_nonzero(result.probabilities) == 5


def test_a_classifier_with_a_threshold_for_each_class() -> None:
    result = endcap.Postprocessor(
        "classification",
        num_classes=4,
        activation="none",
        multi_label=True,
        score_thresholds=[0.5, 0.1, 0.9, 0.2],
        classes=[0, 1, 2],
    )(np.array([[0.6, 0.2, 0.8, 0.9]], np.float32))
    assert result.class_ids.tolist() == [[0, 1, -1, -1]]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classes": [7]}, "classes has 7, and num_classes is 7: give class ids from 0 to 6"),
        ({"classes": [-1]}, "classes is '-1'"),
        ({"classes": []}, "classes is ''"),
        ({"classes": "dog"}, "classes is 'dog'"),
        (
            {"score_thresholds": [0.5, 0.5]},
            "score_thresholds has 2 numbers, and num_classes is 7: give one number for each class",
        ),
        ({"score_thresholds": [1.5] * 7}, "score_thresholds is '1.5': give a number from 0 to 1"),
        (
            {"head": "classification", "score_thresholds": [0.5] * 7},
            "give multi_label=true, or leave score_thresholds out",
        ),
    ],
)
def test_filters_that_do_not_fit(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.Postprocessor(num_classes=7, **parameters)


def test_values_are_described_as_config_takes_them() -> None:
    values = endcap.Postprocessor().parameters
    assert (values["classes"], values["score_thresholds"]) == ("all", "none")
    given = endcap.Postprocessor(num_classes=2, classes=[1, 0], score_thresholds=[0.5, 0.25])
    assert given.parameters["classes"] == "1,0"
    assert given.parameters["score_thresholds"] == "0.5,0.25"
    again = endcap.Postprocessor(**given.parameters)
    assert again.parameters == given.parameters
