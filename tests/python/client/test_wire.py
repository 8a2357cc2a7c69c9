"""Requests and responses of both protocols; responses are checked before use."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from endcap.client.calls import (
    DATATYPES,
    Call,
    InputTensor,
    Operation,
    OutputTensor,
    Response,
    SequenceStep,
    SharedSlice,
    TensorSpec,
    numpy_type,
    triton_type,
)
from endcap.client.errors import RequestError
from endcap.client.grpc import GrpcOperations, plain_fields
from endcap.client.http import HttpOperations, HttpResponse, config_from_json
from endcap.errors import InvalidArgumentError, UnsupportedError


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


@pytest.mark.parametrize("protocol", [GrpcOperations(), HttpOperations()])
def test_arrays_of_another_byte_order_are_refused(
    protocol: GrpcOperations | HttpOperations,
) -> None:
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
        GrpcOperations().infer(Call("m", [InputTensor.of("x", large)], []))
    half = np.empty(2, np.object_)
    half[:] = [b"x" * 3, b""]
    assert GrpcOperations().infer(Call("m", [InputTensor.of("x", half)], [])).request


@pytest.mark.parametrize("sequence", [0, -1, 2**63, "", "x" * 129, "\u00e9" * 65])
def test_an_id_that_no_sequence_has_is_refused(sequence: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is no id of a sequence; give a number from 1"):
        SequenceStep(sequence)
    assert SequenceStep(2**63 - 1).id == 2**63 - 1
    assert SequenceStep("x" * 128).start is False


CALL = Call(
    "m",
    [InputTensor("x", (1,), "FP32", SharedSlice("in", 64, 4))],
    [OutputTensor("y", SharedSlice("out", 0, 8)), OutputTensor("z", class_count=3)],
    "id",
)


def grpc_response(**tensor: Any) -> Response:
    """What is made of a response with one output, z."""
    raw = tensor.pop("raw")
    response = service_pb2.ModelInferResponse(raw_output_contents=raw)
    response.outputs.add(name="z", **tensor)
    return GrpcOperations().infer(CALL).read(response)


def http_response(body: object, raw: bytes = b"", status: int = 200, **headers: str) -> Response:
    head = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"inference-header-content-length": str(len(head)), **headers}
    return HttpOperations().infer(CALL).read(HttpResponse(status, fields, head + raw))


def output(name: str = "z", size: int | None = 4, **fields: Any) -> dict[str, Any]:
    parameters = {} if size is None else {"parameters": {"binary_data_size": size}}
    return {
        "outputs": [{"name": name, "datatype": "FP32", "shape": [1], **parameters, **fields}],
    }


def test_a_call_names_the_regions_of_its_tensors() -> None:
    serialized = GrpcOperations().infer(CALL).request.message
    message = service_pb2.ModelInferRequest.FromString(serialized)
    assert message.inputs[0].parameters["shared_memory_offset"].int64_param == 64
    assert message.outputs[0].parameters["shared_memory_byte_size"].int64_param == 8
    assert message.outputs[1].parameters["classification"].int64_param == 3
    assert not message.raw_input_contents
    body = json.loads(HttpOperations().infer(CALL).request.body)
    assert body["inputs"][0]["parameters"] == {
        "shared_memory_region": "in",
        "shared_memory_byte_size": 4,
        "shared_memory_offset": 64,
    }
    assert body["outputs"][0]["parameters"]["shared_memory_region"] == "out"
    assert body["outputs"][1]["parameters"]["classification"] == 3
    assert body["id"] == "id"


@pytest.mark.parametrize(
    ("array", "content"),
    [
        (np.arange(5, dtype=np.int16), np.arange(5, dtype="<i2").tobytes()),
        (np.arange(6, dtype=np.float32).reshape(2, 3).T, struct.pack("<6f", 0, 3, 1, 4, 2, 5)),
        (np.arange(8, dtype=np.uint8)[::-2], bytes([7, 5, 3, 1])),
        (np.array(1.5, np.float64), struct.pack("<d", 1.5)),
        (np.zeros((0, 3), np.float16), b""),
        (np.array([True, False]), b"\x01\x00"),
        (np.array([b"ab", "\u00e9", b""], np.object_), b"\2\0\0\0ab\2\0\0\0\xc3\xa9\0\0\0\0"),
        *((np.zeros(size, np.uint8), bytes(size)) for size in (127, 128, 16383, 16384, 2**21)),
    ],
)
def test_tensors_are_sent_in_row_major_order(array: np.ndarray, content: bytes) -> None:
    tensors = [InputTensor.of("first", array), InputTensor.of("second", np.float32([1]))]
    call = Call("m", tensors, [OutputTensor("y")], "id", SequenceStep(3, start=True))
    serialized = GrpcOperations().infer(call).request.message
    message = service_pb2.ModelInferRequest.FromString(serialized)
    assert list(message.raw_input_contents) == [content, struct.pack("<f", 1)]
    assert [list(each.shape) for each in message.inputs] == [list(array.shape), [1]]
    assert message.parameters["sequence_id"].int64_param == 3
    assert len(message.SerializeToString()) == len(serialized)
    request = HttpOperations().infer(call).request
    length = int(request.headers["Inference-Header-Content-Length"])
    assert request.body[length:] == content + struct.pack("<f", 1)
    document = json.loads(request.body[:length])
    assert document["inputs"][0] == {
        "name": "first",
        "datatype": triton_type(array.dtype),
        "shape": list(array.shape),
        "parameters": {"binary_data_size": len(content)},
    }
    assert document["parameters"] == {
        "sequence_id": 3, "sequence_start": True, "sequence_end": False
    }  # fmt: skip
    assert document["outputs"] == [{"name": "y", "parameters": {"binary_data": True}}]


def test_a_timeout_is_a_parameter_of_the_request() -> None:
    for timeout_us in (None, 1, 2**40):
        call = replace(CALL, timeout_us=timeout_us)
        message = service_pb2.ModelInferRequest.FromString(
            GrpcOperations().infer(call).request.message
        )
        sent = {name: value.int64_param for name, value in message.parameters.items()}
        assert sent == ({} if timeout_us is None else {"timeout": timeout_us})
        document = json.loads(HttpOperations().infer(call).request.body)
        assert document["parameters"] == sent


def test_without_named_outputs_all_come_in_binary() -> None:
    body = HttpOperations().infer(Call("m", [], [])).request.body
    assert json.loads(body) == {
        "inputs": [], "outputs": [], "parameters": {"binary_data_output": True}
    }  # fmt: skip


def test_a_grpc_request_keeps_its_tensors_when_the_array_changes() -> None:
    array = np.float32([1, 2])
    serialized = GrpcOperations().infer(Call("m", [InputTensor.of("x", array)], [])).request.message
    array[:] = 0
    message = service_pb2.ModelInferRequest.FromString(serialized)
    assert message.raw_input_contents == [struct.pack("<2f", 1, 2)]


def test_names_in_paths_are_escaped() -> None:
    protocol = HttpOperations()
    assert protocol.ready("a/b?c d").request.path == "/v2/models/a%2Fb%3Fc%20d/ready"
    assert protocol.infer(Call("../x", [], [])).request.path == "/v2/models/..%2Fx/infer"


def test_valid_responses_are_read() -> None:
    raw = struct.pack("<f", 1.5)
    for response in (
        grpc_response(datatype="FP32", shape=[1], raw=[raw]),
        http_response(output(), raw),
        http_response(output(size=None, data=[1.5])),
    ):
        tensor = response.tensors["z"]
        assert tensor is not None
        assert (tensor.tolist(), tensor.dtype) == ([1.5], np.float32)
        assert response.request_id == "id"


def test_a_missing_output_is_none() -> None:
    assert GrpcOperations().infer(CALL).read(service_pb2.ModelInferResponse()).tensors == {
        "z": None
    }
    assert http_response({"outputs": []}).tensors == {"z": None}


@pytest.mark.parametrize(
    "tensor",
    [
        {"datatype": "FP32", "shape": [3], "raw": [b"1234"]},
        {"datatype": "FP32", "shape": [1], "raw": [b"123"]},
        {"datatype": "FP32", "shape": [-5], "raw": [b"1234"]},
        {"datatype": "BYTES", "shape": [1], "raw": [b"\xff\xff\xff\xffxy"]},
        {"datatype": "BYTES", "shape": [1], "raw": [b"12"]},
        {"datatype": "FOO", "shape": [1], "raw": [b"12345678"]},
    ],
)
def test_invalid_grpc_responses_are_errors(tensor: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="the server's response cannot be read") as caught:
        grpc_response(**tensor)
    assert caught.value.status_name == "internal"
    assert caught.value.request_id == "id"


@pytest.mark.parametrize(
    ("body", "raw"),
    [
        (b"{", b""),
        (b"[1]", b""),
        ({"outputs": 3}, b""),
        ({"outputs": [3]}, b""),
        ({"outputs": [{}]}, b""),
        (output(shape=[3]), b"1234"),
        (output(shape=["a"]), b"1234"),
        (output(size=-4), b"1234"),
        (output(size=3), b"123"),
        (output(datatype="BYTES"), b"\xff\xff\xff\xffxy"),
        (output("y", size=None, shape=[-1]), b""),
        (output("y", size=None, shape="wide"), b""),
        (output(datatype="FOO", size=8), b"12345678"),
        (output("y", size=None, datatype="FP31"), b""),
        (output(datatype=["FP32"]), b"1234"),
        (output(size=None, datatype="INT32", data=[10**400]), b""),
    ],
)
def test_invalid_http_responses_are_errors(body: object, raw: bytes) -> None:
    with pytest.raises(RequestError, match="the server's response cannot be read") as caught:
        http_response(body, raw)
    assert caught.value.status_name == "internal"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_wrong_content_encoding_is_an_error(encoding: str) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        http_response(output(), b"1234", **{"content-encoding": encoding})


def test_numbers_that_numpy_lacks_come_as_tritonclient_has_them() -> None:
    raw = np.float32([1.5]).tobytes()[2:]
    for response in (
        grpc_response(datatype="BF16", shape=[1], raw=[raw]),
        http_response(output(datatype="BF16", size=2), raw),
    ):
        tensor = response.tensors["z"]
        assert tensor is not None
        assert tensor.tolist() == [1.5]
    with pytest.raises(UnsupportedError, match="NumPy has no type for tensors of BF16"):
        numpy_type("BF16")


METADATA = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], "outputs": []}


def http_metadata(body: object) -> Any:
    operation: Operation[Any] = HttpOperations().metadata("m")
    return operation.read(HttpResponse(200, {}, json.dumps(body).encode()))


def test_metadata_is_read() -> None:
    assert http_metadata(METADATA).inputs == {"x": TensorSpec("FP32", (-1, 3))}


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"datatype": "FP31"},
        {"datatype": ["FP32"]},
        {"shape": [-2]},
        {"shape": ["3"]},
        {"shape": [True]},
        {"shape": [1.0]},
    ],
)
def test_impossible_metadata_is_an_error(change: dict[str, Any]) -> None:
    body = {"inputs": [{**METADATA["inputs"][0], **change}]}  # type: ignore[dict-item]
    with pytest.raises(RequestError) as caught:
        http_metadata(body)
    assert caught.value.status_name in ("internal", "unavailable")


def test_two_tensors_of_one_name_are_an_error() -> None:
    with pytest.raises(RequestError, match="a tensor 'x' of model 'm' of type"):
        http_metadata({"inputs": METADATA["inputs"] * 2})


@pytest.mark.parametrize(
    "operation",
    [
        lambda protocol: protocol.metadata("m"),
        lambda protocol: protocol.config("m"),
        lambda protocol: protocol.ready_models(),
        lambda protocol: protocol.registered("system"),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"3", b"[3]", b'"x"', b"\xff"])
def test_other_json_than_tritons_is_an_error(
    operation: Callable[[HttpOperations], Operation[Any]], body: bytes
) -> None:
    with pytest.raises(RequestError):
        operation(HttpOperations()).read(HttpResponse(200, {}, body))


def test_a_configuration_is_plain_data() -> None:
    config = model_config_pb2.ModelConfig(name="m", max_batch_size=4)
    config.input.add(name="x", dims=[2**40, -1], data_type=model_config_pb2.TYPE_FP16)
    config.parameters["labels"].string_value = "__import__('os')"
    config.ensemble_scheduling.step.add(model_name="a", input_map={"x": "y"})
    expected = {
        "name": "m",
        "max_batch_size": 4,
        "input": [{"name": "x", "dims": [2**40, -1], "data_type": "TYPE_FP16"}],
        "parameters": {"labels": {"string_value": "__import__('os')"}},
        "ensemble_scheduling": {"step": [{"model_name": "a", "input_map": {"x": "y"}}]},
    }
    assert plain_fields(config) == expected
    assert config_from_json("m", {**expected, "a_field_of_next_year": 1}) == expected
    for body in ({"input": 3}, {"max_batch_size": "many"}, 3, None):
        with pytest.raises(RequestError, match="configuration of model 'm' cannot be read"):
            config_from_json("m", body)
