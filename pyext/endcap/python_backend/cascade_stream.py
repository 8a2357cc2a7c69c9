"""The steps of a cascade for one image, one detection after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError
from endcap.python_backend import cascade_calls as calls
from endcap.python_backend.cascade_calls import CallModel
from endcap.python_backend.crops import ClassAnswers, Crops, in_batches
from endcap.python_backend.detection_rows import READ_OUTPUTS, choose_regions
from endcap.python_backend.failures import RequestCancelledError
from endcap.python_backend.model_calls import Tensor, arrays
from endcap.triton.cascade_settings import CascadeSettings

# One row of each of these is passed on.
_ROWS = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")


class CascadeStream:
    """Works on one request at a time and gives out what it has.

    Args:
        settings: the models, and when to ask them.
        call: asks a model; raises ModelCallError where that fails.
    """

    def __init__(self, settings: CascadeSettings, call: CallModel) -> None:
        self._settings = settings
        self._call = call

    def detections(
        self, request: Any, encoded: Tensor, is_cancelled: Callable[[], bool]
    ) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Yield the outputs of each detection, best first, as its class gets known.

        Regions are cut out by one call for the whole image. A classifier is asked when the first
        detection of a batch is due, so that the best ones do not wait for all.

        Raises:
            InvalidArgumentError: not one image; or a model's answer lacks something.
            ModelCallError: a model failed. What was yielded before stays as it is.
            RequestCancelledError: `is_cancelled` has said so between two steps.
        """
        if encoded.as_numpy().size != 1:
            raise InvalidArgumentError(
                f"encoded holds {encoded.as_numpy().size} images; send one in each request"
            )
        if is_cancelled():
            raise RequestCancelledError
        outputs = (*READ_OUTPUTS, "detection_indices")
        call = calls.detect_call(self._settings.detect_model, encoded, outputs, request)
        answer = self._call(call)
        found = calls.detections_of(call, answer)
        classes = ClassAnswers(found.scores.shape)
        crops: list[Crops] = []
        for regions in choose_regions(found, self._settings):
            if is_cancelled():
                raise RequestCancelledError
            call = calls.rois_call(regions, encoded.as_numpy().reshape(-1)[0], request)
            crops += calls.crops_of(call, self._call(call), regions)
        waiting = in_batches(crops, self._settings.classify_batch_size)
        rows = arrays(answer)
        for row in range(int(found.counts[0])):
            if is_cancelled():
                raise RequestCancelledError
            for batch in waiting:
                if _holds(batch, row):
                    self._classify(batch, classes, request)
            waiting = [batch for batch in waiting if not _holds(batch, row)]
            yield _one_row(rows, classes, row)

    def _classify(self, batch: list[Crops], classes: ClassAnswers, request: Any) -> None:
        call = calls.classify_call(batch, request)
        for crops, best in calls.best_classes_of(call, self._call(call), batch):
            classes.put(crops.image, crops.rows, best)


def _holds(batch: list[Crops], row: int) -> bool:
    return any(row in crops.rows for crops in batch)


def _one_row(
    detected: dict[str, npt.NDArray[Any]], classes: ClassAnswers, row: int
) -> dict[str, npt.NDArray[Any]]:
    boxes = detected["detection_boxes"].reshape(-1, 4)
    one = {"detection_boxes": boxes[row : row + 1]}
    for name in _ROWS[1:]:
        one[name] = detected[name].reshape(-1)[row : row + 1]
    for name, values in classes.outputs().items():
        one[name] = values.reshape(-1)[row : row + 1]
    return {name: np.ascontiguousarray(values) for name, values in one.items()}
