"""Activations, and the best classes of a classifier, in NumPy, for the reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.reference_settings import Activation, HeadName, ReferenceSettings

_MOST_CLASSES = 5  # where nothing else is said


def activated(raw: NDArray[np.float32], settings: ReferenceSettings) -> NDArray[np.float32]:
    """Return the scores of raw numbers, the last axis being the classes."""
    activation = settings.activation
    if activation is Activation.default:
        activation = _default_activation(settings)
    if activation is Activation.none:
        return raw
    exact = raw.astype(np.float64)
    with np.errstate(over="ignore"):  # 1 / infinity is the 0 that is meant
        if activation is Activation.sigmoid:
            return (1.0 / (1.0 + np.exp(-exact))).astype(np.float32)
    powers = np.exp(exact - exact.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def _default_activation(settings: ReferenceSettings) -> Activation:
    if settings.head is HeadName.rtdetr and not settings.joined:
        return Activation.sigmoid
    is_classifier = settings.head is HeadName.classification
    return Activation.softmax if is_classifier else Activation.none


def best_classes(
    logits: NDArray[np.float32], settings: ReferenceSettings
) -> tuple[Floats, Integers]:
    """Return scores [top_k] and class ids [top_k] of logits [C], best first.

    With multi_label only those greater than score_threshold, which may be fewer. Of equal scores
    the lower class is first. Raises InvalidArgumentError for a NaN, and for a score that is not
    finite.
    """
    with np.errstate(invalid="ignore"):  # rejected below
        scores = activated(logits, settings)
    if np.isnan(logits).any() or not np.isfinite(scores).all():
        raise InvalidArgumentError(
            "the network's logits give this image a score that is not finite"
        )
    top_k = min(_MOST_CLASSES, len(scores)) if settings.top_k is None else settings.top_k
    order = np.argsort(-scores, kind="stable")[:top_k]
    if settings.multi_label:
        order = order[scores[order] > settings.score_threshold]
    return scores[order].astype(np.float64), order.astype(np.int64)
