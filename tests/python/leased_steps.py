"""A lease and the server's side of it, for steps that are taken without a server."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from endcap.client.calls import Call, InputTensor, Response, SharedOutput, SharedSlice
from endcap.client.shared_memory import Lease
from endcap.client.shared_memory.region import Region


class Leased:
    """A lease, and what a server does with it."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.lease = Lease(region)
        self.asked: list[Call] = []

    def answer(self, ask: Callable[[Call], Response]) -> Callable[[Call], Response]:
        """Reads shared inputs and writes shared outputs of what another one answers."""

        def answer(call: Call) -> Response:
            self.asked.append(call)
            inputs = [self._with_data(each) for each in call.inputs]
            answered = ask(Call(call.model, inputs, call.outputs, call.request_id)).tensors
            tensors, shared = dict(answered), {}
            for output in call.outputs:
                if output.shared is not None:
                    array = tensors.pop(output.name)
                    assert array is not None
                    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                    self.bytes_of(output.shared)[: len(data)] = data
                    shared[output.name] = SharedOutput(array.shape, "FP32")
            return Response(tensors, shared)

        return answer

    def _with_data(self, tensor: InputTensor) -> InputTensor:
        if not isinstance(tensor.data, SharedSlice):
            return tensor
        data = self.bytes_of(tensor.data).tobytes()
        return InputTensor.of(tensor.name, np.frombuffer(data, np.float32).reshape(tensor.shape))

    def bytes_of(self, part: SharedSlice) -> npt.NDArray[np.uint8]:
        """The memory of a part of the region."""
        assert part.region == self.region.name
        return np.frombuffer(self.lease.view(part.offset, part.byte_size), np.uint8)
