"""Batches of images: their requests, and their results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import Call, InputTensor, OutputTensor, Response, numpy_type
from endcap.client.errors import RequestError
from endcap.client.images import Image, ImageReader, name_of
from endcap.client.response_reader import ImageResponse
from endcap.client.served_model import ServedModel
from endcap.cuda_array import on_host
from endcap.results import ImageResult, Task

if TYPE_CHECKING:
    from endcap.client.lease import Lease

MAX_IMAGE_BYTES = 8 << 20  # room for an encoded image in a region of default size
_LENGTH_BYTES = 4  # before each element of a BYTES tensor
_ALIGNMENT = 64  # of tensors in a region
_WITHOUT_ROOM = ("BYTES", "BF16")  # of no size, and of none of NumPy's types
# Statuses of the server or the deadline, not of an image: a request per image would change nothing.
_SHARED_STATUSES = frozenset({"unavailable", "timeout", "cancelled"})


@dataclass(frozen=True)
class Batch:
    """Images of one request. start: the position of the first one among all images."""

    start: int
    images: Sequence[Image]

    @property
    def names(self) -> list[str]:
        """The images' names in their results."""
        return [name_of(image, self.start + n) for n, image in enumerate(self.images)]

    def cancelled(self, task: Task) -> list[ImageResult]:
        """Return the results of images that a closed client did not send."""
        error = "the client was closed before this image was sent; make another one"
        return [ImageResult(name, "cancelled", error=error, task=task) for name in self.names]


@dataclass(frozen=True)
class SubBatch:
    """A request for some images of a batch.

    Attributes:
        rows: The positions of these images in the batch.
        contents: Their encoded bytes.
        spent_s: The seconds that an earlier attempt has used up.
    """

    rows: list[int]
    contents: list[bytes]
    spent_s: float = 0.0


class BatchRun:
    """The requests and results of one batch; the client sends them.

    The client sends each attempt that `next` returns and passes its outcome to `take`.
    """

    def __init__(self, batch: Batch, reader: ImageReader, task: Task) -> None:
        self._names = batch.names
        self._task = task
        self._results: dict[int, ImageResult] = {}
        sent = SubBatch([], [])
        for row, image in enumerate(batch.images):
            try:
                content = reader.read(image)
            except RequestError as error:
                self._failed(row, error, None, "")
            else:
                sent.rows.append(row)
                sent.contents.append(content)
        self._attempts = [sent] if sent.rows else []

    def next(self) -> SubBatch | None:
        """Return the next request to send, None when every image has its result."""
        return self._attempts.pop(0) if self._attempts else None

    def take(
        self,
        attempt: SubBatch,
        outcome: Sequence[ImageResponse | RequestError] | RequestError,
        latency_ms: float,
        request_id: str,
    ) -> None:
        """Record the outcome of an attempt: each image's part of the response, or the error.

        After an error that one image may have caused, each is sent again in its own request.
        """
        if isinstance(outcome, RequestError):
            if len(attempt.rows) > 1 and outcome.status_name not in _SHARED_STATUSES:
                each = zip(attempt.rows, attempt.contents, strict=True)
                spent_s = latency_ms / 1e3
                self._attempts += [SubBatch([row], [content], spent_s) for row, content in each]
                return
            outcome = [outcome] * len(attempt.rows)
        for row, response in zip(attempt.rows, outcome, strict=True):
            if isinstance(response, RequestError):
                self._failed(row, response, latency_ms, request_id)
            else:
                self._results[row] = ImageResult(
                    self._names[row],
                    "ok",
                    response.detections,
                    latency_ms=latency_ms,
                    classes=response.classes,
                    task=self._task,
                    request_id=request_id,
                    upright=response.upright,
                    tensors=response.tensors,
                )

    def results(self) -> list[ImageResult]:
        """Return the results in the order of the images."""
        return [self._results[row] for row in range(len(self._names))]

    def _failed(
        self, row: int, error: RequestError, latency_ms: float | None, request_id: str
    ) -> None:
        self._results[row] = ImageResult(
            self._names[row],
            error.status_name,
            error=str(error),
            latency_ms=latency_ms,
            task=self._task,
            request_id=request_id,
        )


class RequestFormat:
    """The form of the requests for batches of encoded images, and of their responses.

    Args:
        outputs: The outputs to request.
        class_counts: The number of an output's best elements to request instead, by Triton's
            classification extension.
    """

    def __init__(
        self,
        model: ServedModel,
        outputs: Sequence[str],
        class_counts: Mapping[str, int] | None = None,
    ) -> None:
        self._model = model
        self._outputs = [
            OutputTensor(name, class_count=(class_counts or {}).get(name, 0)) for name in outputs
        ]

    def call(self, images: Sequence[bytes], request_id: str, lease: Lease | None = None) -> Call:
        """Return the request for these images."""
        outputs = [self._output(each, len(images), lease) for each in self._outputs]
        return Call(self._model.name, [self._input(images, lease)], outputs, request_id)

    def read(
        self, call: Call, response: Response, images: int, lease: Lease | None = None
    ) -> list[dict[str, NDArray[Any] | None]]:
        """Return each image's tensors, as a batch of one, from the response for the batch.

        With a lease they may be views of its shared memory.

        Raises:
            RequestError: A tensor has another batch size.
        """
        tensors = {each.name: _tensor(each, response, lease) for each in call.outputs}
        if not self._model.batched:
            return [{n: None if t is None else t[None] for n, t in tensors.items()}]
        return split(tensors, images)

    def region_bytes(self, batch: int) -> int:
        """Return the bytes of shared memory that a request for `batch` images takes at the most.

        Encoded images count as MAX_IMAGE_BYTES each.
        """
        encoded = batch * (MAX_IMAGE_BYTES + _LENGTH_BYTES) + _ALIGNMENT
        return encoded + sum(self._room(each, batch) for each in self._outputs)

    def _input(self, images: Sequence[bytes], lease: Lease | None) -> InputTensor:
        files, name = list(images), self._model.input_name
        if self._model.input.datatype == "UINT8":
            array = np.frombuffer(files[0], np.uint8)
            array = array[None] if self._model.batched else array
            return lease.put(name, array) if lease is not None else InputTensor.of(name, array)
        shape = (len(files), 1) if self._model.batched else (1,)
        if lease is not None:
            return lease.put_encoded(name, files, shape)
        elements = np.empty(len(files), np.object_)
        elements[:] = files
        return InputTensor.of(name, elements.reshape(shape))

    def for_video(self, inputs: Sequence[InputTensor]) -> RequestFormat:
        """Return the form of a request for a video, with these inputs in place of an image."""
        return _VideoFormat(self._model, self._outputs, inputs)

    def _output(self, output: OutputTensor, batch: int, lease: Lease | None) -> OutputTensor:
        shape = self._fixed_shape(output, batch)
        if lease is None or shape is None:
            return output
        return lease.output(output.name, shape, numpy_type(self._spec(output).datatype))

    def _room(self, output: OutputTensor, batch: int) -> int:
        shape = self._fixed_shape(output, batch)
        if shape is None:
            return 0
        itemsize = numpy_type(self._spec(output).datatype).itemsize
        return math.prod(shape) * itemsize + _ALIGNMENT

    def _fixed_shape(self, output: OutputTensor, batch: int) -> tuple[int, ...] | None:
        """Return an output's shape, None where only the response determines it."""
        spec = self._spec(output)
        sides = (batch, *spec.shape[1:]) if self._model.batched else spec.shape
        sized = spec.datatype not in _WITHOUT_ROOM and not output.class_count
        known = sized and min(sides, default=1) >= 0
        return tuple(sides) if known else None

    def _spec(self, output: OutputTensor) -> Any:
        return self._model.outputs[output.name]


class _VideoFormat(RequestFormat):
    def __init__(
        self, model: ServedModel, outputs: Sequence[OutputTensor], inputs: Sequence[InputTensor]
    ) -> None:
        super().__init__(model, [output.name for output in outputs])
        self._inputs = inputs

    def call(self, images: Sequence[bytes], request_id: str, lease: Lease | None = None) -> Call:
        return Call(self._model.name, self._inputs, self._outputs, request_id)


def split(
    tensors: Mapping[str, NDArray[Any] | None], images: int
) -> list[dict[str, NDArray[Any] | None]]:
    """Return each image's part, a batch of one, of the tensors of a batch.

    Raises:
        RequestError: A tensor has another batch size.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.shape[:1] != (images,):
            raise RequestError(
                "internal",
                f"the server returned {name} {list(tensor.shape)} for a batch of {images}; its "
                f"first side must be {images}",
            )
    return [
        {name: None if each is None else each[image : image + 1] for name, each in tensors.items()}
        for image in range(images)
    ]


def _tensor(output: OutputTensor, response: Response, lease: Lease | None) -> NDArray[Any] | None:
    if lease is not None and output.shared is not None and output.name in response.shared:
        return on_host(lease.read(output, response))
    return response.tensors.get(output.name)
