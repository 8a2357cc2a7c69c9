"""Recognises rows of suppression inside a network that have more than a box, a score and a class.

No head reads them; so that such a network can be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from endcap.repository.head import Head
from endcap.repository.hints import Hints
from endcap.repository.network_output import NetworkOutput

_MOST_ROWS = 1000


def propose_suppressed_extras(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `end2end` with angles, or with masks or keypoints, for rows [K, 7] and more."""
    rows, columns = output.dims
    if columns < 7 or rows > _MOST_ROWS or output.values is None:
        return
    scores, class_ids = output.values[:, 4], output.values[:, 5]
    are_scores = bool(((scores >= 0) & (scores <= 1)).all() and scores.any())
    if not are_scores or (class_ids < 0).any() or (class_ids != np.round(class_ids)).any():
        return
    family = "end2end_obb" if columns == 7 else "end2end_with_more"
    reason = (
        f"{output.name} [{rows}, 6 + {columns - 6}]: each row a box, a score, a class, and more; "
        "exported without its end-to-end branch, the network has a head that is read"
    )
    yield Head(family, {}, None, reason, is_sure=True)
