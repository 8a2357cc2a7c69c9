"""Classes as Triton's classification extension answers them: texts `score:id:label`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from endcap.client.errors import RequestError
from endcap.client.extras import Tensors, check_datatypes, text
from endcap.client.rows import check_status, label_of
from endcap.results.detection import ClassScore
from endcap.results.task import PROBABILITIES


def read_best_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Returns the classes of one answer, best first.

    outputs: a batch of one: class_probabilities bytes [1,K], and status int32 [1,1], which may be
    absent. labels: names by id, which go before the server's; an empty name there is none.
    Raises RequestError when the image's status is not 0, or an element is not `score:id:label`.
    """
    check_status(outputs)
    check_datatypes(outputs, [PROBABILITIES])
    tensor = outputs.get(PROBABILITIES)
    if tensor is None or tensor.ndim != 2 or len(tensor) != 1:
        raise RequestError(
            "internal",
            f"the server answered {PROBABILITIES} {None if tensor is None else tensor.shape}; "
            "texts [1,K] are expected",
        )
    return [_class_score(text(element), labels) for element in tensor[0]]


def _class_score(element: str, labels: Sequence[str] | None) -> ClassScore:
    score, class_id, label = (*element.split(":", 2), "", "")[:3]
    try:
        best = ClassScore(int(class_id), float(score), None)
    except ValueError:
        best = ClassScore(0, math.nan, None)
    if not math.isfinite(best.score):
        raise RequestError(
            "internal", f"the server answered the class {element[:80]!r}, not score:id:label"
        )
    return ClassScore(best.class_id, best.score, label_of(best.class_id, labels) or label or None)
