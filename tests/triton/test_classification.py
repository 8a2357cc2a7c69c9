"""endcap_postprocess with head: classification."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import heads
from tests.support import tolerances
from tests.triton.calls import infer
from tests.triton.class_models import LEAVES, THRESHOLD, TOP_K
from tests.triton.served_models import LABELS

pytestmark = pytest.mark.both_variants

LOGITS = np.array([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]], np.float32)
BEST = [[1, 2, 0], [2, 3, 0]]  # of equal scores the lower class


def softmax() -> np.ndarray:
    exponents = np.exp(LOGITS.astype(np.float64))
    return exponents / exponents.sum(axis=1, keepdims=True)


def labels_of(ids: list[list[int]]) -> list[list[bytes]]:
    return [[LABELS[i].encode() for i in row] for row in ids]


def test_scores_ids_and_labels(client):
    response = infer(client, "classes", {"logits": LOGITS})
    np.testing.assert_array_equal(response["class_ids"], BEST)
    np.testing.assert_allclose(
        response["class_scores"], np.take_along_axis(softmax(), np.array(BEST), 1), rtol=1e-6
    )
    np.testing.assert_allclose(response["class_probabilities"], softmax(), rtol=1e-6)
    assert response["class_labels"].tolist() == labels_of(BEST)
    assert not response["status"].any()


def test_without_a_labels_file_labels_are_empty(client):
    response = infer(client, "classes_unnamed", {"logits": LOGITS})
    np.testing.assert_array_equal(response["class_ids"], BEST)
    assert response["class_labels"].tolist() == [[b""] * 3] * 2


@pytest.mark.parametrize("failed", [1, 3])
def test_an_image_that_failed_before(client, failed):
    status = np.array([[failed], [0]], np.int32)
    response = infer(client, "classes", {"logits": LOGITS, "status": status})
    np.testing.assert_array_equal(response["status"], status)
    np.testing.assert_array_equal(response["class_scores"][0], [0, 0, 0])
    assert not response["class_probabilities"][0].any()
    assert response["class_labels"][0].tolist() == [b"", b"", b""]
    assert response["class_labels"][1].tolist() == labels_of(BEST)[1]


def test_several_labels_of_each_image_of_a_batch(client):
    # Some classes, all of them, none (a score of exactly the threshold), and an image that failed.
    logits = np.array(
        [[1, -5, 2, -3, 2], [4, 4, 9, 8, 1], [0, -1, 0, -9, 0], [9, 9, 9, 9, 9]], np.float32
    )
    status = np.array([[0], [0], [0], [2]], np.int32)
    response = infer(client, "several_classes", {"logits": logits, "status": status})
    np.testing.assert_array_equal(
        response["class_ids"], [[2, 4, 0], [2, 3, 0], [-1, -1, -1], [-1, -1, -1]]
    )
    probabilities = response["class_probabilities"]
    np.testing.assert_allclose(
        probabilities[:3], heads.sigmoid(logits[:3]), rtol=tolerances.ACTIVATION_RTOL
    )
    for image in range(3):
        expected = heads.classes_over(probabilities[image], THRESHOLD, TOP_K)
        unused = [0.0] * (TOP_K - len(expected))
        assert response["class_scores"][image].tolist() == [
            *probabilities[image][expected],
            *unused,
        ]
    assert not response["class_scores"][3].any()
    assert not probabilities[3].any()
    assert response["class_labels"].tolist() == [
        [LEAVES[i].encode() if i >= 0 else b"" for i in row] for row in response["class_ids"]
    ]


def test_fewer_labels_than_rows(client):
    logits = np.array([[-1, 3, -1, -1, -1]], np.float32)
    response = infer(client, "several_classes", {"logits": logits})
    assert response["class_ids"].tolist() == [[1, -1, -1]]
    assert response["class_labels"].tolist() == [[b"husky", b"", b""]]
    assert response["class_paths"].tolist() == [[b"animal/dog/husky", b"", b""]]
