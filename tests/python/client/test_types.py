"""Tensors that go to a server: their types, byte order and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from endcap.client.calls import (
    DATATYPES,
    Call,
    InputTensor,
    SequenceStep,
    numpy_type,
    triton_type,
)
from endcap.client.grpc import GrpcProtocol
from endcap.client.http import HttpProtocol
from endcap.errors import InvalidArgumentError


def test_types_are_named_both_ways() -> None:
    names = {"?": "BOOL", "b": "INT8", "Q": "UINT64", "e": "FP16", "d": "FP64", "O": "BYTES"}
    for code, name in names.items():
        assert triton_type(np.dtype(code)) == name
        assert numpy_type(name) == np.dtype(code)
        assert name in DATATYPES


@pytest.mark.parametrize("dtype", ["c8", "M8[s]", "U3", "S3", "f16", "V4"])
def test_arrays_that_triton_has_no_type_for_are_refused(dtype: str) -> None:
    array = np.zeros(2, dtype)
    with pytest.raises(InvalidArgumentError, match="Triton has no type for arrays of"):
        InputTensor.of("x", array)


@pytest.mark.parametrize("protocol", [GrpcProtocol(), HttpProtocol()])
def test_arrays_of_another_byte_order_are_refused(protocol: GrpcProtocol | HttpProtocol) -> None:
    """Triton would take their bytes for other numbers."""
    array = np.arange(3, dtype=np.dtype("f4").newbyteorder())
    with pytest.raises(InvalidArgumentError, match=r"give it as array\.astype\('float32'\)"):
        InputTensor.of("x", array)
    with pytest.raises(InvalidArgumentError, match="byte order of another machine"):
        protocol.infer(Call("m", [InputTensor("x", (3,), "FP32", array)], []))
    twin = InputTensor.of("x", array.astype("float32"))
    assert twin.data.tolist() == [0, 1, 2]  # type: ignore[union-attr]


def test_more_than_a_grpc_message_holds_is_refused_before_it_is_made() -> None:
    large = np.broadcast_to(np.float32(0), (2**15, 2**14))  # 2 GiB, of one element
    with pytest.raises(InvalidArgumentError, match="put them in shared memory, or send a smaller"):
        GrpcProtocol().infer(Call("m", [InputTensor.of("x", large)], []))
    half = np.empty(2, np.object_)
    half[:] = [b"x" * 3, b""]
    assert GrpcProtocol().infer(Call("m", [InputTensor.of("x", half)], [])).request


@pytest.mark.parametrize("sequence", [0, -1, 2**63, "", "x" * 129, "\u00e9" * 65])
def test_an_id_that_no_sequence_has_is_refused(sequence: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is no id of a sequence; give a number from 1"):
        SequenceStep(sequence)
    assert SequenceStep(2**63 - 1).id == 2**63 - 1
    assert SequenceStep("x" * 128).start is False
