"""A preprocess step, taken here with the parameters of the server's model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap import _core
from endcap._images import to_buffer
from endcap.client.errors import RequestError
from endcap.client.steps.local_model import first_failure, read_preprocess
from endcap.client.steps.served_steps import Step
from endcap.client.steps.tensors import BatchTensors
from endcap.errors import EndcapError

Image = bytes | NDArray[Any]


class LocalPreprocess:
    """Images to `images`, `geometry` and `status`. Thread-safe.

    step: of the ensemble. pixel_format: "rgb" or "bgr", of images that are pixels.
    Raises UnsupportedError for a step that cannot be taken here.
    """

    def __init__(self, step: Step, pixel_format: str) -> None:
        settings = read_preprocess(step)
        # The server's `threads` are for the server's CPUs.
        self._core = _core.Preprocessor(settings.parameters, 0)
        self._outputs = step.place.outputs
        self._batched = settings.batched
        self._pixel_format = pixel_format
        values = {name: value for name, _, _, value in self._core.parameters}
        self._tolerant = values["on_error"] == "blank"

    def run(self, images: Sequence[Image], tensors: BatchTensors) -> RequestError | None:
        """Puts its outputs among the tensors; `images` in shared memory where there is a lease.

        Returns, as the server says it, the first bad image, unless `on_error` of the step is
        `blank`. It is not raised here, for a traceback would keep views on the shared memory.
        """
        made = {name: self._rows(name, len(images), tensors) for name, _, _ in self._core.outputs}
        try:
            buffers = [to_buffer(image) for image in images]
            images_out, geometry, status = made.values()
            items = self._core.run(buffers, self._pixel_format, images_out, geometry, status)
        except EndcapError as error:
            return RequestError(error.status.label, str(error))
        return None if self._tolerant else first_failure(items)

    def shared_bytes(self, batch: int) -> list[int]:
        """Returns the sizes of the tensors that go into shared memory."""
        _, dtype, shape = self._core.outputs[0]
        return [batch * math.prod(shape) * np.dtype(dtype).itemsize]

    def _rows(self, name: str, count: int, tensors: BatchTensors) -> NDArray[Any]:
        """Returns memory for an output, with a batch dimension."""
        dtype, row = next((np.dtype(d), tuple(s)) for n, d, s in self._core.outputs if n == name)
        tensor = self._outputs.get(name)
        if tensor is None:
            return np.empty((count, *row), dtype)
        shape = (count, *row) if self._batched else row
        if name == "images":
            array = tensors.make(tensor, shape, dtype)
        else:
            array = np.empty(shape, dtype)
            tensors.put(tensor, array)
        return array.reshape(count, *row)
