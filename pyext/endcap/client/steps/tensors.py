"""The tensors of one batch on their way from step to step, by the ensemble's names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from endcap._arrays import empty
from endcap.client.calls import InputTensor, OutputTensor, Response
from endcap.client.errors import RequestError
from endcap.client.shared_memory.region import SystemRegion
from endcap.cuda_array import on_host

if TYPE_CHECKING:
    from endcap.client.shared_memory import Lease


@dataclass(frozen=True)
class _Made:
    """What this process made for shared memory.

    tensor: where it lies there; None for memory of a GPU that it has not been copied to.
    """

    array: NDArray[Any]
    tensor: InputTensor | None


@dataclass(frozen=True)
class _Received:
    """What the server wrote into shared memory."""

    output: OutputTensor
    answer: Response


class BatchTensors:
    """Arrays of this process, and tensors in the shared memory of a lease.

    Shapes are those that the tensors have in the server: without a batch dimension where the
    ensemble has none.
    """

    def __init__(self, lease: Lease | None) -> None:
        self.lease = lease
        self._values: dict[str, NDArray[Any] | _Made | _Received] = {}

    def make(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Returns memory for a tensor that is made here; shared memory where there is a lease.

        The memory of a GPU is filled when a request needs the tensor. Raises InvalidArgumentError
        where it does not fit into the lease, and OutOfMemoryError.
        """
        array: NDArray[Any]
        if self.lease is None:
            self._values[name] = array = empty(shape, dtype)
        elif isinstance(self.lease.region, SystemRegion):
            array, tensor = self.lease.empty(name, shape, dtype)
            self._values[name] = _Made(array, tensor)
        else:
            array = empty(shape, dtype)
            self._values[name] = _Made(array, None)
        return array

    def put(self, name: str, array: NDArray[Any]) -> None:
        """Takes a tensor as it is."""
        self._values[name] = array

    def receive(self, name: str, output: OutputTensor, answer: Response) -> None:
        """Takes an output of an answer, from the answer or where it lies in shared memory.

        Raises RequestError where the answer lacks it.
        """
        if output.shared is not None and output.name in answer.shared:
            self._values[name] = _Received(output, answer)
            return
        array = answer.tensors.get(output.name)
        if array is None:
            raise RequestError("internal", f"the server's answer has no {output.name}")
        self._values[name] = array

    def array(self, name: str) -> NDArray[Any]:
        """Returns a tensor, in place where it lies in the host's shared memory.

        One in the memory of a GPU is copied. Raises RequestError where it does not fit its room.
        """
        match self._values[name]:
            case _Made(array=array):
                return array
            case _Received(output=output, answer=answer):
                return on_host(self._leased().read(output, answer))
            case array:
                return array

    def as_input(self, name: str, own_name: str) -> InputTensor:
        """Returns a tensor as the input `own_name` of a request; shared memory is not copied."""
        match self._values[name]:
            case _Made(array=array, tensor=tensor):
                if tensor is None:
                    tensor = self._leased().put(own_name, array)
                    self._values[name] = _Made(array, tensor)
                return dataclasses.replace(tensor, name=own_name)
            case _Received(output=output, answer=answer):
                return self._leased().as_input(output, own_name, answer)
            case array:
                return InputTensor.of(own_name, array)

    def result(self, name: str) -> NDArray[Any] | None:
        """Returns a tensor that may outlive the lease, None for one that nothing has made."""
        value = self._values.get(name)
        if value is None or isinstance(value, np.ndarray):
            return value
        return self.array(name).copy()

    def clear(self) -> None:
        """Drops all tensors, so that no view on shared memory outlives its lease."""
        self._values.clear()

    def _leased(self) -> Lease:
        assert self.lease is not None  # or nothing lay in shared memory
        return self.lease
