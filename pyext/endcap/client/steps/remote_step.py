"""A step that the server takes: a request to its model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from endcap.client.calls import Call, OutputTensor, Response, numpy_type
from endcap.client.steps.model_config import TensorConfig
from endcap.client.steps.served_steps import Step
from endcap.client.steps.tensors import BatchTensors
from endcap.triton.tensor_spec import TRITON_TYPES

# What NumPy has, too, and of one size for each element.
_OF_FIXED_SIZE = {*TRITON_TYPES.values()} - {"BF16", "STRING"}


@dataclass(frozen=True)
class RemoteStep:
    """A request to a step's model.

    step: of the ensemble. wanted: the tensors of the ensemble that are needed of its outputs.
    passed_on: those of them that are another step's input, which stay in shared memory if they can.
    class_counts: of outputs that Triton's classification extension is to give, by the ensemble's
        names.
    """

    step: Step
    wanted: Collection[str]
    passed_on: Collection[str]
    class_counts: Mapping[str, int]

    def call(self, batch: int, tensors: BatchTensors, request_id: str) -> Call:
        """Returns the request for a batch of that many images.

        Raises InvalidArgumentError where the lease has no room for its outputs.
        """
        place = self.step.place
        return Call(
            place.model,
            [tensors.as_input(tensor, own) for own, tensor in place.inputs.items()],
            [self._output(own, batch, tensors) for own in self._asked()],
            request_id,
        )

    def receive(self, call: Call, answer: Response, tensors: BatchTensors) -> None:
        """Puts the outputs of an answer among the tensors. Raises RequestError for one missing."""
        for output in call.outputs:
            tensors.receive(self.step.place.outputs[output.name], output, answer)

    def shared_bytes(self, batch: int) -> list[int]:
        """Returns the sizes of the tensors that go into shared memory."""
        rooms = [self._room(own) for own in self._asked()]
        return [
            batch * math.prod(room.dims) * numpy_type(room.datatype).itemsize
            for room in rooms
            if room is not None
        ]

    def _asked(self) -> list[str]:
        return [own for own, tensor in self.step.place.outputs.items() if tensor in self.wanted]

    def _output(self, own: str, batch: int, tensors: BatchTensors) -> OutputTensor:
        room = self._room(own)
        if tensors.lease is None or room is None:
            tensor = self.step.place.outputs[own]
            return OutputTensor(own, class_count=self.class_counts.get(tensor, 0))
        shape = (batch, *room.dims) if self.step.model.batched else room.dims
        return tensors.lease.output(own, shape, numpy_type(room.datatype))

    def _room(self, own: str) -> TensorConfig | None:
        """Returns what an output needs in shared memory, None for one that is not to go there.

        Those of a length that is not known before are not, as BYTES and dims of any size.
        """
        config = self.step.model.outputs.get(own)
        if config is None or self.step.place.outputs[own] not in self.passed_on:
            return None
        is_known = config.datatype in _OF_FIXED_SIZE and all(dim > 0 for dim in config.dims)
        return config if is_known else None
