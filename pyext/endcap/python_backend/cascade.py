"""Cascade: detect, cut the detections out, classify them, by calls of other models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError
from endcap.python_backend.crops import (
    CLASS_OUTPUTS,
    READ_OUTPUTS,
    BestClasses,
    BestClassRows,
    Crops,
    Detections,
    Regions,
    choose_regions,
    in_batches,
    joined,
    read_best_classes,
    read_detections,
    sort_crops,
)
from endcap.python_backend.failures import RequestCancelledError
from endcap.python_backend.model_calls import (
    ENCODED,
    CallModel,
    CallModelAsync,
    ModelCall,
    Tensor,
    arrays,
    errors_naming,
)
from endcap.triton.cascade_settings import CascadeSettings


def detect_call(model: str, encoded: Tensor, outputs: Sequence[str], origin: Any) -> ModelCall:
    """Return the call that detects in all images of a request."""
    return ModelCall(model=model, inputs={ENCODED: encoded}, outputs=tuple(outputs), origin=origin)


def detections_of(call: ModelCall, response: dict[str, Tensor]) -> Detections:
    """Return the rows of a detector's response; an InvalidArgumentError names the model."""
    with errors_naming(call.model):
        return read_detections(arrays(response))


def rois_call(regions: Regions, file: bytes, origin: Any) -> ModelCall:
    """Return the call that cuts regions out of one image file."""
    encoded = np.empty(1, np.object_)
    encoded[0] = file
    inputs = {ENCODED: encoded, "rois": np.ascontiguousarray(regions.boxes, np.float32)}
    outputs = ("images", "status")
    return ModelCall(model=regions.rois_model, inputs=inputs, outputs=outputs, origin=origin)


def crops_of(
    call: ModelCall, response: dict[str, Tensor], regions: Regions, *, request: int = 0
) -> list[Crops]:
    """Return the crops by classifier; an InvalidArgumentError names the model."""
    with errors_naming(call.model):
        return sort_crops(regions, arrays(response), request=request)


def classify_call(batch: list[Crops], origin: Any) -> ModelCall:
    """Return the call that classifies a batch, which is for one model.

    It requests all outputs: not every classifier has `class_labels`.
    """
    return ModelCall(model=batch[0].classifier, inputs={"images": joined(batch)}, origin=origin)


def best_classes_of(
    call: ModelCall, response: dict[str, Tensor], batch: list[Crops]
) -> list[tuple[Crops, BestClasses]]:
    """Return the parts of a batch with their classes; an InvalidArgumentError names the model."""
    with errors_naming(call.model):
        best = read_best_classes(arrays(response), sum(len(crops.rows) for crops in batch))
    ends = np.cumsum([len(crops.rows) for crops in batch])
    return [
        (crops, best.part(int(end) - len(crops.rows), int(end)))
        for crops, end in zip(batch, ends, strict=True)
    ]


Result = TypeVar("Result")


class CascadeJob:
    """One request on its way through a cascade.

    Args:
        request: the server's.
        encoded: its input, the bytes of image files.
        wanted: names of the requested outputs. Without one of the classes nothing is cut out.
    """

    def __init__(self, request: Any, encoded: Tensor, wanted: Sequence[str]) -> None:
        self.request = request
        self.encoded = encoded
        self.wanted = wanted
        self.wants_classes = any(name in CLASS_OUTPUTS for name in wanted)
        self._error: Exception | None = None
        self.detected: dict[str, Tensor] = {}
        self.classes: BestClassRows | None = None

    def fail(self, error: Exception) -> None:
        """Keep the error."""
        # Its frames hold this job: crops would stay in shared memory until the next collection.
        self._error = error.with_traceback(None)

    def outputs(self) -> dict[str, Tensor | npt.NDArray[Any]]:
        """Return the requested outputs by name, or raise the error that was kept."""
        if self._error is not None:
            raise self._error
        made = self.classes.outputs() if self.classes is not None else {}
        outputs: dict[str, Tensor | npt.NDArray[Any]] = {**self.detected, **made}
        return {name: outputs[name] for name in self.wanted if name in outputs}


class Cascade:
    """Works on several requests at once; what fails is kept in its job.

    Args:
        settings: the models, and when to call them.
        call: calls a model; raises ModelCallError where that fails.
    """

    def __init__(self, settings: CascadeSettings, call: CallModelAsync) -> None:
        self._settings = settings
        self._call = call

    async def run(self, jobs: Sequence[CascadeJob]) -> None:
        """Give each job its outputs or its error."""
        cut = await _all(map(self._cut_out, range(len(jobs)), jobs))
        crops = [each for of_job in cut for each in of_job]
        batches = in_batches(crops, self._settings.classify_batch_size)
        await _all(self._classify(batch, jobs) for batch in batches)

    async def _cut_out(self, index: int, job: CascadeJob) -> list[Crops]:
        """Detect in a request's images, and cut out what is to be classified."""
        try:
            regions = await self._detect(job)
            if not regions:
                return []
            if job.request.is_cancelled():
                raise RequestCancelledError
            files = job.encoded.as_numpy().reshape(-1)
            cut = [self._cut_regions(each, files[each.image], index, job) for each in regions]
            return [crops for of_image in await _all(cut) for crops in of_image]
        except Exception as error:
            job.fail(error)
            return []

    async def _detect(self, job: CascadeJob) -> list[Regions]:
        passed_on = [name for name in job.wanted if name not in CLASS_OUTPUTS]
        read = READ_OUTPUTS if job.wants_classes else ()
        outputs = tuple(dict.fromkeys([*passed_on, *read]))
        call = detect_call(self._settings.detect_model, job.encoded, outputs, job.request)
        job.detected = await self._call(call)
        if not job.wants_classes:
            return []
        detections = detections_of(call, job.detected)
        job.classes = BestClassRows(detections.shape)
        return choose_regions(detections, self._settings)

    async def _cut_regions(
        self, regions: Regions, file: bytes, index: int, job: CascadeJob
    ) -> list[Crops]:
        call = rois_call(regions, file, job.request)
        return crops_of(call, await self._call(call), regions, request=index)

    async def _classify(self, batch: list[Crops], jobs: Sequence[CascadeJob]) -> None:
        """Classify crops of one or more requests; where that fails, those of each by themselves."""
        requests = sorted({crops.request for crops in batch})
        alone = jobs[requests[0]] if len(requests) == 1 else None
        try:
            call = classify_call(batch, alone.request if alone else None)
            for crops, best in best_classes_of(call, await self._call(call), batch):
                classes = jobs[crops.request].classes
                assert classes is not None  # made before there were crops
                classes.put(crops.image, crops.rows, best)
        except Exception as error:
            if alone is not None:
                alone.fail(error)
                return
            apart = [[crops for crops in batch if crops.request == each] for each in requests]
            await _all(self._classify(each, jobs) for each in apart)


async def _all(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return all results. Where one raises, the others end before that comes out."""
    results = []
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


# One row of each of these is passed on.
_ROWS = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")


class CascadeStream:
    """Works on one request at a time and yields each detection as soon as it is complete.

    Args:
        settings: the models, and when to call them.
        call: calls a model; raises ModelCallError where that fails.
    """

    def __init__(self, settings: CascadeSettings, call: CallModel) -> None:
        self._settings = settings
        self._call = call

    def detections(
        self, request: Any, encoded: Tensor, is_cancelled: Callable[[], bool]
    ) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Yield the outputs of each detection, best first, as its class gets known.

        Regions are cut out by one call for the whole image. A classifier is called when the first
        detection of a batch is due, so that the best ones do not wait for all.

        Raises:
            InvalidArgumentError: not one image; or a model's response lacks something.
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
        call = detect_call(self._settings.detect_model, encoded, outputs, request)
        response = self._call(call)
        detections = detections_of(call, response)
        classes = BestClassRows(detections.scores.shape)
        crops: list[Crops] = []
        for regions in choose_regions(detections, self._settings):
            if is_cancelled():
                raise RequestCancelledError
            call = rois_call(regions, encoded.as_numpy().reshape(-1)[0], request)
            crops += crops_of(call, self._call(call), regions)
        waiting = in_batches(crops, self._settings.classify_batch_size)
        rows = arrays(response)
        for row in range(int(detections.counts[0])):
            if is_cancelled():
                raise RequestCancelledError
            for batch in waiting:
                if _holds(batch, row):
                    self._classify(batch, classes, request)
            waiting = [batch for batch in waiting if not _holds(batch, row)]
            yield _one_row(rows, classes, row)

    def _classify(self, batch: list[Crops], classes: BestClassRows, request: Any) -> None:
        call = classify_call(batch, request)
        for crops, best in best_classes_of(call, self._call(call), batch):
            classes.put(crops.image, crops.rows, best)


def _holds(batch: list[Crops], row: int) -> bool:
    return any(row in crops.rows for crops in batch)


def _one_row(
    detected: dict[str, npt.NDArray[Any]], classes: BestClassRows, row: int
) -> dict[str, npt.NDArray[Any]]:
    boxes = detected["detection_boxes"].reshape(-1, 4)
    one = {"detection_boxes": boxes[row : row + 1]}
    for name in _ROWS[1:]:
        one[name] = detected[name].reshape(-1)[row : row + 1]
    for name, values in classes.outputs().items():
        one[name] = values.reshape(-1)[row : row + 1]
    return {name: np.ascontiguousarray(values) for name, values in one.items()}
