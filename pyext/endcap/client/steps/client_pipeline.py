"""The way to detections on which this process takes steps of a served ensemble itself."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import Call, OutputTensor, Response
from endcap.client.errors import RequestError
from endcap.client.steps.chosen_steps import Place, choose_steps
from endcap.client.steps.local_postprocess import LocalPostprocess
from endcap.client.steps.local_preprocess import Image, LocalPreprocess
from endcap.client.steps.served_steps import ServedSteps
from endcap.client.steps.tensors import BatchTensors
from endcap.errors import InvalidArgumentError

if TYPE_CHECKING:
    from endcap.client.shared_memory import Lease

_ALIGNMENT = 64  # of tensors in a lease, bytes
_Results = list[dict[str, NDArray[Any] | None]]


class ClientPipeline:
    """A pipeline whose preprocess, postprocess or both are done here, with the served parameters.

    The network, and what else the ensemble has, is asked directly, step by step. With a lease the
    tensors between steps lie in shared memory and are not copied: preprocess writes there, the
    server reads and writes there, and postprocess reads there. Encoded images, tensors of any
    length and final answers of the server go over the wire. preprocess="server" with
    postprocess="client" pays with a lease only: without one the images' tensor comes and goes.

    steps: of the ensemble.
    preprocess, postprocess: where each is done, "client" or "server".
    outputs: those of the ensemble to return; None is all of them. Names from a `labels_file` are
        None with postprocess="client", for the file is the server's; the ensemble's parameter
        `labels` names classes.
    color: "rgb" or "bgr", of images that are pixels.

    Raises UnsupportedError for an ensemble whose step cannot be taken here, as one that is no step
    of endcap or has parameters that this version does not know, and InvalidArgumentError for
    Triton's classification of what postprocess="client" makes. Thread-safe.
    """

    blocking = True

    def __init__(
        self,
        steps: ServedSteps,
        *,
        preprocess: Place = "client",
        postprocess: Place = "client",
        outputs: Sequence[OutputTensor] | None = None,
        color: Literal["rgb", "bgr"] = "rgb",
    ) -> None:
        self._ensemble = steps.ensemble
        self.max_batch = steps.max_batch
        wanted = [OutputTensor(name) for name in steps.ensemble.outputs]
        self._outputs = wanted if outputs is None else list(outputs)
        self._encoded = next(iter(steps.ensemble.inputs)) if preprocess == "server" else None
        self._steps = choose_steps(
            steps,
            preprocess=preprocess,
            postprocess=postprocess,
            class_counts={output.name: output.class_count for output in self._outputs},
            pixel_format=color,
        )

    def region_bytes(self, batch: int) -> int:
        """Returns what a lease needs for a batch of that many images."""
        sizes = [
            size
            for step in self._steps
            if not isinstance(step, LocalPostprocess)
            for size in step.shared_bytes(batch)
        ]
        return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)

    def steps(
        self, images: Sequence[Image], lease: Lease | None, request_id: str
    ) -> Generator[Call, Response, _Results]:
        """Yields requests, is sent their answers, and returns the ensemble's outputs of each image.

        images: encoded files, bytes or uint8 [N], or with preprocess="client" also pixels, uint8
            [H,W,3] or [H,W]; at most `max_batch`. request_id: of all requests.

        Returns for each image the tensors by name, with a batch dimension of 1. Raises RequestError
        for a bad image, as the server's step does: for the first of a batch, without the others.
        """
        count = len(images)
        if not 1 <= count <= self.max_batch:
            raise InvalidArgumentError(
                f"a batch has {count} images: give 1 to {self.max_batch}, the largest batch of "
                f"model '{self._ensemble.name}'"
            )
        tensors = BatchTensors(lease)
        try:
            if self._encoded is not None:
                tensors.put(self._encoded, self._as_tensor(self._encoded, images))
            for step in self._steps:
                failure = None
                if isinstance(step, LocalPreprocess):
                    failure = step.run(images, tensors)
                elif isinstance(step, LocalPostprocess):
                    failure = step.run(count, tensors)
                else:
                    call = step.call(count, tensors, request_id)
                    step.receive(call, (yield call), tensors)
                if failure is not None:
                    raise failure
            return self._results(count, tensors)
        finally:
            tensors.clear()

    def _as_tensor(self, name: str, images: Sequence[Image]) -> NDArray[Any]:
        batched, datatype = self._ensemble.batched, self._ensemble.inputs[name].datatype
        if datatype == "UINT8":
            if len(images) != 1:
                raise InvalidArgumentError(
                    f"{name} of model '{self._ensemble.name}' is UINT8, which holds one file: give "
                    "a batch of 1"
                )
            array = np.frombuffer(images[0], np.uint8)
            return array[np.newaxis] if batched else array
        files = np.empty((len(images), 1), np.object_)
        files[:, 0] = [bytes(image) for image in images]
        return files if batched else files[0]

    def _results(self, count: int, tensors: BatchTensors) -> _Results:
        results: _Results = [{} for _ in range(count)]
        for output in self._outputs:
            array = tensors.result(output.name)
            if array is not None and not self._ensemble.batched:
                array = array[np.newaxis]
            if array is not None and (array.ndim == 0 or len(array) != count):
                raise RequestError(
                    "internal",
                    f"the server answered {output.name} {list(array.shape)} for {count} images; one"
                    " row for each is expected",
                )
            for index, result in enumerate(results):
                result[output.name] = None if array is None else array[index : index + 1]
        return results
