"""Detect, cut out, classify: the steps of a cascade for several requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

from endcap.python_backend import cascade_calls as calls
from endcap.python_backend.cascade_calls import CallModelAsync
from endcap.python_backend.crops import CLASS_OUTPUTS, ClassAnswers, Crops, in_batches
from endcap.python_backend.detection_rows import READ_OUTPUTS, Regions, choose_regions
from endcap.python_backend.failures import RequestCancelledError
from endcap.python_backend.model_calls import Tensor
from endcap.triton.cascade_settings import CascadeSettings

Result = TypeVar("Result")


class CascadeJob:
    """One request on its way through a cascade.

    Args:
        request: the server's.
        encoded: its input, the bytes of image files.
        wanted: names of the outputs asked for. Without any of the classes' nothing is cut out.
    """

    def __init__(self, request: Any, encoded: Tensor, wanted: Sequence[str]) -> None:
        self.request = request
        self.encoded = encoded
        self.wanted = wanted
        self.wants_classes = any(name in CLASS_OUTPUTS for name in wanted)
        self._error: Exception | None = None
        self.detected: dict[str, Tensor] = {}
        self.classes: ClassAnswers | None = None

    def fail(self, error: Exception) -> None:
        """Keep what went wrong."""
        # Its frames hold this job: crops would stay in shared memory until the next collection.
        self._error = error.with_traceback(None)

    def outputs(self) -> dict[str, Tensor | npt.NDArray[Any]]:
        """Return the outputs that were asked for, by name, or raise what went wrong."""
        if self._error is not None:
            raise self._error
        made = self.classes.outputs() if self.classes is not None else {}
        found: dict[str, Tensor | npt.NDArray[Any]] = {**self.detected, **made}
        return {name: found[name] for name in self.wanted if name in found}


class Cascade:
    """Works on several requests at once; what fails is kept in its job.

    Args:
        settings: the models, and when to ask them.
        call: asks a model; raises ModelCallError where that fails.
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
        call = calls.detect_call(self._settings.detect_model, job.encoded, outputs, job.request)
        job.detected = await self._call(call)
        if not job.wants_classes:
            return []
        detections = calls.detections_of(call, job.detected)
        job.classes = ClassAnswers(detections.shape)
        return choose_regions(detections, self._settings)

    async def _cut_regions(
        self, regions: Regions, file: bytes, index: int, job: CascadeJob
    ) -> list[Crops]:
        call = calls.rois_call(regions, file, job.request)
        return calls.crops_of(call, await self._call(call), regions, request=index)

    async def _classify(self, batch: list[Crops], jobs: Sequence[CascadeJob]) -> None:
        """Classify crops of one or more requests; where that fails, those of each by themselves."""
        requests = sorted({crops.request for crops in batch})
        alone = jobs[requests[0]] if len(requests) == 1 else None
        try:
            call = calls.classify_call(batch, alone.request if alone else None)
            for crops, best in calls.best_classes_of(call, await self._call(call), batch):
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
