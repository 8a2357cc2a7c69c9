"""Raw heads to candidates, the stage before suppression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._head import Head, to_batched
from endcap._text import to_parameters
from endcap.errors import InvalidArgumentError
from endcap.parameters import HeadParameters, list_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Candidates:
    """N boxes over the score threshold, best first; equal scores by lower index, then class.

    Attributes:
        boxes: float32 [N, 4], x1, y1, x2, y2 in pixels of the model's input.
        scores: float32 [N].
        class_ids: int32 [N].
        indices: int32 [N], the anchor, query or row that each box came from.
        truncated: more than ``max_candidates`` were over the threshold.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    truncated: bool


@list_parameters(HeadParameters)
def box_decode(
    head: Head,
    *,
    family: str = "yolov8",
    num_classes: int | None = None,
    **fields: Unpack[HeadParameters],
) -> Candidates:
    """Read one image's raw head.

    Args:
        head: ``yolov5`` [A, 5+C], ``yolov8`` [4+C, A] (``yolov8_pose`` and its like have more
            rows), ``end2end`` [K, 6]; for ``rtdetr`` a mapping with logits and boxes, for ``ssd``
            with boxes, scores and anchors, for ``efficient_nms`` with num_detections, boxes, scores
            and classes. float32 or float16.
        family: the head family.
        num_classes: classes of the model.
        fields: the head's other parameters by name, of ``endcap.parameters.HeadParameters``.

    Raises:
        InvalidArgumentError: a shape, dtype or value that does not fit; NaN.
    """
    parameters = to_parameters({"head": family, "num_classes": num_classes, **fields})
    specs = _core.Postprocessor(parameters, 1).inputs
    tensors, batched = to_batched(head, specs)
    if batched:
        raise InvalidArgumentError("the head has a batch dimension: give one image's")
    return Candidates(*_core.box_decode(parameters, tensors))
