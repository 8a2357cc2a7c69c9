"""Classifiers that may give an image several classes, or none, against the NumPy oracle."""

from __future__ import annotations

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


def classify(
    logits: npt.NDArray[np.float32], *, score_threshold: float, top_k: int, activation: str = "none"
) -> endcap.Classification:
    result = endcap.Postprocessor(
        "classification",
        num_classes=logits.shape[-1],
        multi_label=True,
        score_threshold=score_threshold,
        top_k=top_k,
        activation=activation,
    )(logits)
    assert isinstance(result, endcap.Classification)
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
    st.data(),
)
def test_any_scores_equal_the_oracle(
    scores: list[float], score_threshold: float, data: st.DataObject
) -> None:
    given_scores = np.float32(scores)
    top_k = data.draw(st.integers(1, len(scores)))
    result = classify(given_scores, score_threshold=score_threshold, top_k=top_k)
    np.testing.assert_array_equal(result.probabilities[0], given_scores)
    assert_row(result, 0, heads.classes_over(given_scores, score_threshold, top_k))


def test_a_batch_with_a_sigmoid() -> None:
    logits = np.random.default_rng(17).normal(0, 3, (6, 40)).astype(np.float32)
    logits[2] = -20  # no class
    logits[3] = 20  # all of them
    result = classify(logits, score_threshold=0.8, top_k=8, activation="sigmoid")
    np.testing.assert_allclose(
        result.probabilities, heads.sigmoid(logits), rtol=tolerances.ACTIVATION_RTOL
    )
    counts = [np.count_nonzero(row > 0.8) for row in result.probabilities]
    assert (counts[2], counts[3]) == (0, 40)
    assert any(0 < count < 8 for count in counts)
    for image, scores in enumerate(result.probabilities):
        assert_row(result, image, heads.classes_over(scores, 0.8, 8))


def test_a_score_of_exactly_the_threshold_is_not_over_it() -> None:
    score = np.float32(0.3)
    scores = np.array([score, np.nextafter(score, np.float32(1)), 0], np.float32)
    result = classify(scores, score_threshold=float(score), top_k=3)
    assert result.class_ids.tolist() == [[1, -1, -1]]


def test_equal_scores_at_the_cut_go_to_the_lower_class() -> None:
    result = classify(np.float32([0.5, 0.9, 0.9, 0.9]), score_threshold=0.25, top_k=2)
    assert result.class_ids.tolist() == [[1, 2]]


def test_no_class_over_the_threshold() -> None:
    result = classify(np.float32([0.1, 0.2]), score_threshold=0.5, top_k=2)
    assert result.class_ids.tolist() == [[-1, -1]]
    assert result.scores.tolist() == [[0, 0]]
    np.testing.assert_array_equal(result.probabilities, np.float32([[0.1, 0.2]]))
    assert result.status.tolist() == [0]


@pytest.mark.parametrize("activation", ["none", "sigmoid", "softmax"])
def test_without_multi_label_the_threshold_is_not_used(activation: str) -> None:
    fields = {"num_classes": 4, "top_k": 4, "activation": activation}
    logits = np.float32([0.1, 0.4, 0.2, 0.3])
    plain = endcap.Postprocessor("classification", **fields)(logits)
    strict = endcap.Postprocessor("classification", score_threshold=1.0, **fields)(logits)
    assert plain.class_ids.tolist() == strict.class_ids.tolist() == [[1, 3, 2, 0]]
    np.testing.assert_array_equal(plain.scores, strict.scores)
