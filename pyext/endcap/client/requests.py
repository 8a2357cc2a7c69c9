"""Requests for batches of encoded images, and each image's part of a response."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.errors import UNREADABLE, RequestError, unreadable_error
from endcap.client.images import read_file
from endcap.client.regions import Lease, find_fixed_dtype
from endcap.client.served_model import ServedModel
from endcap.client.transport import import_client
from endcap.cuda_array import on_host
from endcap.errors import InvalidArgumentError

MAX_IMAGE_BYTES = 8 << 20  # room for an encoded image in a region of default size
_LENGTH_BYTES = 4  # before each element of a BYTES tensor
_ALIGNMENT = 64  # of tensors in a region
_MAX_SEQUENCE_ID = 2**63 - 1  # gRPC's parameters have no greater numbers
_MAX_SEQUENCE_ID_BYTES = 128

Tensors = dict[str, NDArray[Any] | None]
Arguments = dict[str, Any]  # of tritonclient's `infer`
Video = bytes | bytearray | memoryview | str | os.PathLike[str]


@dataclass(frozen=True)
class SequenceStep:
    """The position of a request in a sequence of a stateful model.

    Attributes:
        id: A number above 0 and below 2**63, or a text of 1 to 128 bytes.

    Raises:
        InvalidArgumentError: Another id.
    """

    id: int | str
    start: bool = False
    end: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.id, str):
            is_allowed = 0 < len(self.id.encode()) <= _MAX_SEQUENCE_ID_BYTES
        else:
            is_allowed = 0 < self.id <= _MAX_SEQUENCE_ID
        if not is_allowed:
            raise InvalidArgumentError(
                f"sequence {self.id!r} cannot be the id of a sequence; give a number from 1 to "
                f"2**63 - 1, or a text of 1 to {_MAX_SEQUENCE_ID_BYTES} bytes"
            )


class RequestFormat:
    """Builds requests for batches of encoded images, and splits their responses.

    Args:
        model: The model.
        outputs: The outputs to request, each with the number of its best elements to request
            instead, by Triton's classification extension, or 0.
        tritonclient: `tritonclient.grpc` or `tritonclient.http`.
    """

    def __init__(self, model: ServedModel, outputs: Mapping[str, int], tritonclient: Any) -> None:
        self._model = model
        self._is_batched = model.batched
        self._tritonclient = tritonclient
        requested = tritonclient.InferRequestedOutput
        self._outputs = {n: requested(n, class_count=count) for n, count in outputs.items()}
        self._counts = outputs

    def make_arguments(
        self,
        images: Sequence[bytes],
        request_id: str,
        *,
        step: SequenceStep | None = None,
        lease: Lease | None = None,
    ) -> Arguments:
        """Return the arguments of `infer` for these images; with a lease, in shared memory."""
        model, name = self._model, self._model.input_name
        if model.input.datatype == "UINT8":
            array = np.frombuffer(images[0], np.uint8)
            array = array[None] if self._is_batched else array
            tensor = self._input(name, array, "UINT8") if lease is None else lease.put(name, array)
        else:
            shape = (len(images), 1) if self._is_batched else (1,)
            if lease is None:
                tensor = self._bytes_input(name, images, shape)
            else:
                tensor = lease.put_encoded(name, images, shape)
        arguments = self._make_arguments([tensor], request_id)
        if lease is not None:
            arguments["outputs"] = [
                lease.output(name, *fixed)
                if (fixed := self._find_fixed_shape(name, len(images)))
                else output
                for name, output in self._outputs.items()
            ]
        if step is not None:
            arguments["sequence_id"] = step.id
            arguments["sequence_start"] = step.start
            arguments["sequence_end"] = step.end
        return arguments

    def make_video_arguments(
        self, video: Video, options: Mapping[str, object] | None, request_id: str
    ) -> Arguments:
        """Return the arguments of `infer` for a video; a file is read.

        Raises:
            InvalidArgumentError: Options that cannot be written as JSON.
            RequestError: A file that cannot be read.
        """
        content = read_file(Path(video)) if isinstance(video, (str, os.PathLike)) else bytes(video)
        inputs = [self._bytes_input("encoded", [content], (1,))]
        if options:
            inputs.append(self._bytes_input("options", [check_options(options)], (1,)))
        return self._make_arguments(inputs, request_id)

    def read(self, result: Any, images: int, lease: Lease | None = None) -> list[Tensors]:
        """Return each image's tensors, as a batch of one, from tritonclient's InferResult.

        With a lease they may be views of its shared memory.

        Raises:
            RequestError: The response is malformed, or a tensor has another batch size.
        """
        try:
            names = [n for n in self._outputs if lease is None or n not in lease.outputs]
            tensors: Tensors = {name: result.as_numpy(name) for name in names}
        except (*UNREADABLE, import_client("utils").InferenceServerException) as error:
            raise unreadable_error(error) from error
        if lease is not None:
            tensors |= {name: on_host(lease.read(name, result)) for name in lease.outputs}
        if not self._is_batched:
            return [{name: None if t is None else t[None] for name, t in tensors.items()}]
        for name, tensor in tensors.items():
            if tensor is not None and tensor.shape[:1] != (images,):
                raise RequestError(
                    "internal",
                    f"the server returned {name} {list(tensor.shape)} for a batch of {images}; its "
                    f"first side must be {images}",
                )
        if images == 1:
            return [tensors]
        return [
            {name: None if t is None else t[n : n + 1] for name, t in tensors.items()}
            for n in range(images)
        ]

    def count_region_bytes(self, batch: int) -> int:
        """Return the shared memory that a request needs if images have MAX_IMAGE_BYTES."""
        room = batch * (MAX_IMAGE_BYTES + _LENGTH_BYTES) + _ALIGNMENT
        for shape, dtype in filter(
            None, (self._find_fixed_shape(name, batch) for name in self._outputs)
        ):
            room += math.prod(shape) * dtype.itemsize + _ALIGNMENT
        return room

    def _find_fixed_shape(
        self, name: str, batch: int
    ) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Return an output's shape and type, None if only the response determines them."""
        spec = self._model.outputs[name]
        sides = (batch, *spec.shape[1:]) if self._is_batched else spec.shape
        dtype = find_fixed_dtype(spec.datatype)
        if dtype is None or self._counts[name] or min(sides, default=1) < 0:
            return None
        return sides, dtype

    def _make_arguments(self, inputs: Sequence[Any], request_id: str) -> Arguments:
        name, outputs = self._model.name, [*self._outputs.values()]
        return {"model_name": name, "inputs": inputs, "outputs": outputs, "request_id": request_id}

    def _bytes_input(self, name: str, elements: Sequence[bytes], shape: tuple[int, ...]) -> Any:
        return self._input(name, np.array(elements, np.object_).reshape(shape), "BYTES")

    def _input(self, name: str, array: NDArray[Any], datatype: str) -> Any:
        tensor = self._tritonclient.InferInput(name, list(array.shape), datatype)
        return tensor.set_data_from_numpy(array)


def check_options(options: Mapping[str, object] | None) -> bytes:
    """Return options of a video as JSON; raise InvalidArgumentError if that fails."""
    try:
        return json.dumps(dict(options or {}), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"options cannot be written as JSON ({error}); give numbers, texts, True and False"
        ) from error
