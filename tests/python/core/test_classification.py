"""Classifiers: one class or several of an image, or none, against the NumPy definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import heads
from tests.support import tolerances

# Few values, so that scores meet each other and the threshold.
LEVELS = [0.0, 0.25, float(np.float32(0.3)), 0.5, 1.0]


def classify(logits: Any, **fields: Any) -> endcap.Classification:
    logits = np.asarray(logits, np.float32)
    fields = {"num_classes": logits.shape[-1], **fields}
    result = endcap.Postprocessor("classification", **fields)(logits)
    assert isinstance(result, endcap.Classification)
    assert not result.status.any()
    return result


def assert_row(result: endcap.Classification, image: int, expected: npt.NDArray[np.int64]) -> None:
    """The expected classes with their scores, then rows that do not count."""
    unused = result.class_ids.shape[1] - len(expected)
    probabilities = result.probabilities[image]
    assert result.class_ids[image].tolist() == [*expected, *[-1] * unused]
    assert result.scores[image].tolist() == [*probabilities[expected], *[0.0] * unused]


@given(
    st.lists(st.sampled_from([-0.5, *LEVELS, 7.0]), min_size=1, max_size=12),
    st.sampled_from(LEVELS),
    st.booleans(),
    st.data(),
)
def test_any_scores(
    scores: list[float], score_threshold: float, multi_label: bool, data: st.DataObject
) -> None:
    """Ties go to the lower class, a score of exactly the threshold is not over it."""
    top_k = data.draw(st.integers(1, len(scores)))
    options = {"score_threshold": score_threshold, "top_k": top_k, "multi_label": multi_label}
    result = classify(scores, activation="none", **options)
    np.testing.assert_array_equal(result.probabilities[0], np.float32(scores))
    lowest = score_threshold if multi_label else -np.inf
    assert_row(result, 0, heads.classes_over(np.float32(scores), lowest, top_k))


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("activation", ["default", "none", "sigmoid", "softmax"])
def test_activations_of_a_batch(activation: str, multi_label: bool) -> None:
    if multi_label and activation in ("default", "softmax"):
        return  # refused, as test_head_errors.py says
    logits = np.random.default_rng(17).normal(0, 3, (6, 40)).astype(np.float32)
    logits[2] = -20
    logits[3] = 20
    options = {"multi_label": multi_label, "score_threshold": 0.8, "top_k": 8}
    result = classify(logits, activation=activation, **options)
    expected = heads.activated(logits, activation.replace("default", "softmax"))
    np.testing.assert_allclose(result.probabilities, expected, rtol=tolerances.ACTIVATION_RTOL)
    for image, scores in enumerate(result.probabilities):
        assert_row(result, image, heads.classes_over(scores, 0.8 if multi_label else -np.inf, 8))
    if multi_label:
        assert (result.class_ids >= 0).sum(axis=1)[[2, 3]].tolist() == [0, 8]


def test_few_classes_and_huge_logits() -> None:
    assert classify([0.1, 2.0]).class_ids.tolist() == [[1, 0]]
    assert endcap.Postprocessor("classification", num_classes=80).parameters["top_k"] == "5"
    result = classify([10000, 9999, -10000], top_k=3)
    expected = heads.softmax(np.float32([10000, 9999, -10000]))
    np.testing.assert_allclose(result.scores[0], expected, rtol=tolerances.ACTIVATION_RTOL)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_logits_never_become_nan_scores(value: float) -> None:
    try:
        scores = classify([value] * 5).scores
    except endcap.InvalidArgumentError:
        scores = np.zeros(0)  # refusing is right as well
    assert not np.isnan(scores).any()


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_the_best_of_the_classes_that_are_asked_for(activation: str) -> None:
    result = classify([[0.5, 3, 2, -1, 1]], top_k=4, classes=[4, 0, 2], activation=activation)
    assert_row(result, 0, np.array([2, 4, 0]))
    assert np.count_nonzero(result.probabilities) == 5


def test_a_threshold_for_each_class() -> None:
    options: dict[str, Any] = {"activation": "none", "multi_label": True, "classes": [0, 1, 2]}
    # The third score equals its threshold.
    result = classify([0.6, 0.2, 0.875, 0.9], score_thresholds=[0.5, 0.1, 0.875, 0.2], **options)
    assert result.class_ids.tolist() == [[0, 1, -1, -1]]
