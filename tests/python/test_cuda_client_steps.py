"""The way over steps of the client with a lease on a GPU, which here is the emulated one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cuda_inputs import require_cuda
from leased_steps import Leased
from steps_by_hand import PICTURES, detector, drive, go, read_steps, v8

import endcap
from endcap import _core
from endcap.client.calls import (
    Call,
    OutputTensor,
    Response,
    SharedOutput,
    SharedSlice,
    TensorSpec,
)
from endcap.client.pipeline import EnsemblePipeline
from endcap.client.served_model import ServedModel
from endcap.client.steps import ClientPipeline
from endcap.results.task import Task

require_cuda()
if "emulated" not in os.environ.get("ENDCAP_CUDA_LIBRARY", ""):
    pytest.skip("the memory has to be the host's: of the emulated GPU", allow_module_level=True)


class EmulatedRegion:
    """As CudaRegion, of host memory, which the emulated GPU takes for its own; nobody shares it."""

    name = "endcap-emulated"

    def __init__(self, byte_size: int) -> None:
        self.byte_size = byte_size
        self.memory = np.zeros(byte_size, np.uint8)

    def registration(self) -> dict[str, Any]:
        return {"kind": "cuda"}

    def exporter(self) -> Any:
        return _Exporter()

    def view(
        self, exporter: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> endcap.CudaArray:
        pointer = self.memory.ctypes.data + offset
        return endcap.CudaArray(
            _core.CudaTensor.borrow(pointer, dtype.str, list(shape), None, 0, 0, exporter)
        )

    def accept(self, array: Any, name: str) -> Any:
        return np.asarray(array, order="C")

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        self.memory[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def buffer(self, exporter: Any) -> Any:
        raise NotImplementedError

    def remove(self) -> None:
        """Nothing has a name."""


class _Exporter:
    """Can be watched by weak references."""


class LeasedGpu(Leased):
    region: EmulatedRegion

    def bytes_of(self, part: SharedSlice) -> npt.NDArray[np.uint8]:
        return self.region.memory[part.offset : part.offset + part.byte_size]


@pytest.mark.parametrize("count", [1, 2])
def test_answers_equal_those_over_the_wire(count: int) -> None:
    pipeline = ClientPipeline(read_steps(v8()))
    shared = LeasedGpu(EmulatedRegion(pipeline.region_bytes(count)))
    found = drive(pipeline, PICTURES[:count], shared.answer(detector(v8())), shared.lease)
    for given, expected in zip(found, go(pipeline, PICTURES[:count], detector(v8())), strict=True):
        for name, rows in expected.items():
            assert isinstance(given[name], np.ndarray)
            np.testing.assert_array_equal(given[name], rows)
    (call,) = shared.asked
    assert isinstance(call.inputs[0].data, SharedSlice)
    assert call.outputs[0].shared is not None
    assert shared.lease.end() is None, "a view lives on"


def test_the_head_stays_on_the_gpu() -> None:
    wanted = [OutputTensor("num_detections")]
    pipeline = ClientPipeline(read_steps(v8()), postprocess="server", outputs=wanted)
    shared = LeasedGpu(EmulatedRegion(pipeline.region_bytes(1)))

    def answer(call: Call) -> Response:
        if call.model == "detector":
            return detector(v8())(call)
        return Response({"num_detections": np.array([[7]], np.int32)})

    (found,) = drive(pipeline, PICTURES[:1], shared.answer(answer), shared.lease)
    assert found["num_detections"].tolist() == [[7]]
    between, last = shared.asked
    heads = [each.data for each in last.inputs if each.name == "head"]
    assert heads == [between.outputs[0].shared]


def test_the_outputs_of_an_ensemble_come_to_the_host() -> None:
    outputs = {"scores": TensorSpec("FP32", (-1, 3))}
    model = ServedModel("m", Task.detection, TensorSpec("BYTES", (-1, 1)), outputs, batch_limit=4)
    pipeline = EnsemblePipeline(model, ["scores"])
    shared = LeasedGpu(EmulatedRegion(4096))
    call = pipeline.call([b"file", b"other"], "id", shared.lease)
    place = call.outputs[0].shared
    assert place is not None
    scores = np.float32([[1, 2, 3], [4, 5, 6]])
    shared.bytes_of(place)[:] = scores.reshape(-1).view(np.uint8)
    answer = Response({}, {"scores": SharedOutput((2, 3), "FP32")})
    for row, tensors in zip(scores, pipeline.read(call, answer, 2, shared.lease), strict=True):
        assert isinstance(tensors["scores"], np.ndarray)
        np.testing.assert_array_equal(tensors["scores"], row[None])
