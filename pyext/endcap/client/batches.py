"""Batches of images: their requests, and each image's part of a response."""

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
from endcap.client.served_model import ServedModel
from endcap.cuda_array import on_host

if TYPE_CHECKING:
    from endcap.client.lease import Lease

MAX_IMAGE_BYTES = 8 << 20  # room for an encoded image in a region of default size
_LENGTH_BYTES = 4  # before each element of a BYTES tensor
_ALIGNMENT = 64  # of tensors in a region
_WITHOUT_ROOM = ("BYTES", "BF16")  # of no size, and of none of NumPy's types


@dataclass(frozen=True)
class Batch:
    """Images of one request. start: the position of the first one among all images."""

    start: int
    images: Sequence[Image]

    @property
    def names(self) -> list[str]:
        """The images' names in their results."""
        return [name_of(image, self.start + n) for n, image in enumerate(self.images)]

    def read(self, reader: ImageReader) -> list[bytes | RequestError]:
        """Return each image's encoded bytes, or the error of reading it."""
        return [reader.try_read(image) for image in self.images]


class RequestFormat:
    """The form of the requests for batches of encoded images, and of their responses.

    Args:
        outputs: The outputs to request.
        class_counts: The number of an output's best elements to request instead, by Triton's
            classification extension.
        inputs: The inputs of a request for a video, in place of that of an image.
    """

    def __init__(
        self,
        model: ServedModel,
        outputs: Sequence[str],
        class_counts: Mapping[str, int] | None = None,
        inputs: Sequence[InputTensor] | None = None,
    ) -> None:
        self._model = model
        self._outputs = [
            OutputTensor(name, class_count=(class_counts or {}).get(name, 0)) for name in outputs
        ]
        self._inputs = inputs

    def call(self, images: Sequence[bytes], request_id: str, lease: Lease | None = None) -> Call:
        """Return the request for these images; with a lease, in shared memory."""
        inputs = self._inputs or [self._input(list(images), lease)]
        outputs = self._outputs
        if lease is not None:
            outputs = [self._shared_output(each, len(images), lease) for each in outputs]
        return Call(self._model.name, inputs, outputs, request_id)

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
        for name, tensor in tensors.items():
            if tensor is not None and tensor.shape[:1] != (images,):
                raise RequestError(
                    "internal",
                    f"the server returned {name} {list(tensor.shape)} for a batch of {images}; its "
                    f"first side must be {images}",
                )
        return [
            {name: None if each is None else each[n : n + 1] for name, each in tensors.items()}
            for n in range(images)
        ]

    def region_bytes(self, batch: int) -> int:
        """Return the bytes of shared memory that a request for `batch` images takes at the most.

        Encoded images count as MAX_IMAGE_BYTES each.
        """
        room = batch * (MAX_IMAGE_BYTES + _LENGTH_BYTES) + _ALIGNMENT
        for output in self._outputs:
            shape, dtype = self._fixed_shape(output, batch)
            if shape is not None:
                room += math.prod(shape) * dtype.itemsize + _ALIGNMENT
        return room

    def _input(self, files: list[bytes], lease: Lease | None) -> InputTensor:
        name = self._model.input_name
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

    def _shared_output(self, output: OutputTensor, batch: int, lease: Lease) -> OutputTensor:
        shape, dtype = self._fixed_shape(output, batch)
        return output if shape is None else lease.output(output.name, shape, dtype)

    def _fixed_shape(self, output: OutputTensor, batch: int) -> tuple[tuple[int, ...] | None, Any]:
        """Return an output's shape and type, None where only the response determines them."""
        spec = self._model.outputs[output.name]
        sides = (batch, *spec.shape[1:]) if self._model.batched else spec.shape
        if spec.datatype in _WITHOUT_ROOM or output.class_count or min(sides, default=1) < 0:
            return None, None
        return tuple(sides), numpy_type(spec.datatype)


def _tensor(output: OutputTensor, response: Response, lease: Lease | None) -> NDArray[Any] | None:
    if lease is not None and output.shared is not None and output.name in response.shared:
        return on_host(lease.read(output, response))
    return response.tensors.get(output.name)
