"""How a batch of images becomes answers: as calls, without any input or output of its own."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import Call, InputTensor, OutputTensor, Response, numpy_type
from endcap.client.errors import RequestError
from endcap.client.images import Content
from endcap.client.served_model import ServedModel
from endcap.cuda_array import on_host
from endcap.results.task import INPUT

if TYPE_CHECKING:
    from endcap.client.shared_memory import Lease

Tensors: TypeAlias = Mapping[str, "NDArray[Any] | None"]
Steps: TypeAlias = Generator[Call, Response, list[dict[str, "NDArray[Any] | None"]]]

MAX_IMAGE_BYTES = 8 << 20  # room for an encoded image in a region that nobody gave the size of
_LENGTH_BYTES = 4  # before each element of a BYTES tensor
_ALIGNMENT = 64  # of tensors in a region
_WITHOUT_ROOM = ("BYTES", "BF16")  # of no size, and of none of NumPy's types


class Pipeline(Protocol):
    """A way from images to the tensors of their answers."""

    @property
    def blocking(self) -> bool:
        """Whether `steps` use the CPU for long, so that an event loop runs them in a thread."""

    def steps(self, images: Sequence[Content], lease: Lease | None, request_id: str) -> Steps:
        """Yields calls, is sent their answers, and returns the output tensors of each image.

        These are batches of one. A RequestError may be thrown in for an answer. With a lease
        tensors go through its shared memory, and what is returned may be a view on it.
        """

    def region_bytes(self, batch: int) -> int:
        """Returns the bytes of shared memory that `steps` takes at the most for `batch` images.

        Encoded images count as MAX_IMAGE_BYTES each.
        """


class EnsemblePipeline:
    """One call to a model that takes encoded images.

    outputs: what to ask for. class_counts: how many of an output's best elements to ask for
    instead, by Triton's classification extension.
    """

    blocking = False

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

    def call(self, images: Sequence[Content], request_id: str, lease: Lease | None = None) -> Call:
        """Returns the request for these images."""
        outputs = [self._output(each, len(images), lease) for each in self._outputs]
        return Call(self._model.name, [self._input(images, lease)], outputs, request_id)

    def read(
        self, call: Call, answer: Response, images: int, lease: Lease | None = None
    ) -> list[dict[str, NDArray[Any] | None]]:
        """Returns each image's tensors out of the answer of all."""
        tensors = {each.name: _tensor(each, answer, lease) for each in call.outputs}
        if not self._model.batched:
            return [{n: None if t is None else t[None] for n, t in tensors.items()}]
        return split(tensors, images)

    def steps(self, images: Sequence[Content], lease: Lease | None, request_id: str) -> Steps:
        """As `Pipeline.steps`: one call."""
        call = self.call(images, request_id, lease)
        answer = yield call
        return self.read(call, answer, len(images), lease)

    def region_bytes(self, batch: int) -> int:
        """As `Pipeline.region_bytes`."""
        encoded = batch * (MAX_IMAGE_BYTES + _LENGTH_BYTES) + _ALIGNMENT
        return encoded + sum(self._room(each, batch) for each in self._outputs)

    def _input(self, images: Sequence[Content], lease: Lease | None) -> InputTensor:
        files = [bytes(image) for image in images]
        if self._model.input.datatype == "UINT8":
            array = np.frombuffer(files[0], np.uint8)
            array = array[None] if self._model.batched else array
            return lease.put(INPUT, array) if lease is not None else InputTensor.of(INPUT, array)
        shape = (len(files), 1) if self._model.batched else (1,)
        if lease is not None:
            return lease.put_encoded(INPUT, files, shape)
        elements = np.empty(len(files), np.object_)
        elements[:] = files
        return InputTensor.of(INPUT, elements.reshape(shape))

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
        """Returns an output's shape, None where only the answer tells its size."""
        spec = self._spec(output)
        sides = (batch, *spec.shape[1:]) if self._model.batched else spec.shape
        sized = spec.datatype not in _WITHOUT_ROOM and not output.class_count
        known = sized and min(sides, default=1) >= 0
        return tuple(sides) if known else None

    def _spec(self, output: OutputTensor) -> Any:
        return self._model.outputs[output.name]


def split(tensors: Tensors, images: int) -> list[dict[str, NDArray[Any] | None]]:
    """Returns each image's part, a batch of one, of the tensors of a batch.

    Raises RequestError for a tensor of another batch.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.shape[:1] != (images,):
            raise RequestError(
                "internal",
                f"the server answered {name} {list(tensor.shape)} to a batch of {images}; its "
                f"first side must be {images}",
            )
    return [
        {name: None if each is None else each[image : image + 1] for name, each in tensors.items()}
        for image in range(images)
    ]


def _tensor(output: OutputTensor, answer: Response, lease: Lease | None) -> NDArray[Any] | None:
    if lease is not None and output.shared is not None and output.name in answer.shared:
        return on_host(lease.read(output, answer))
    return answer.tensors.get(output.name)
