"""Inference over gRPC: Call to ModelInferRequest, ModelInferResponse to Response."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from endcap.client.calls import Call, Response, SharedOutput, SharedSlice
from endcap.client.errors import RequestError
from endcap.client.wire.contents import (
    checked_datatype,
    checked_shape,
    checked_step,
    raw_bytes,
    raw_size,
)
from endcap.client.wire.install import import_client
from endcap.errors import InvalidArgumentError

_ROOM_FOR_THE_REST = 1 << 20  # names, shapes, parameters
MOST_INPUT_BYTES = 2**31 - 1 - _ROOM_FOR_THE_REST


def infer_request(call: Call, *, decoupled: bool = False) -> Any:
    """Returns the ModelInferRequest of a call.

    decoupled: whether the server is to say with an empty response that no other follows, where the
    model has not said so with its last one. For streams.
    Raises InvalidArgumentError for one whose inputs are more than a message can hold.
    """
    _check_size(call)
    request = import_client("grpc").service_pb2.ModelInferRequest(
        model_name=call.model, id=call.request_id
    )
    for tensor in call.inputs:
        message = request.inputs.add(
            name=tensor.name, datatype=tensor.datatype, shape=list(tensor.shape)
        )
        if isinstance(tensor.data, SharedSlice):
            _point_at(message, tensor.data)
        else:
            request.raw_input_contents.append(raw_bytes(tensor))
    for output in call.outputs:
        message = request.outputs.add(name=output.name)
        if output.shared is not None:
            _point_at(message, output.shared)
        if output.class_count:
            message.parameters["classification"].int64_param = output.class_count
    if call.sequence is not None:
        step = checked_step(call.sequence)
        if isinstance(step.id, str):
            request.parameters["sequence_id"].string_param = step.id
        else:
            request.parameters["sequence_id"].int64_param = step.id
        request.parameters["sequence_start"].bool_param = step.start
        request.parameters["sequence_end"].bool_param = step.end
    if decoupled:
        request.parameters["triton_enable_empty_final_response"].bool_param = True
    return request


def read_infer_response(
    response: Any, asked: Collection[str], shared: Collection[str], request_id: str = ""
) -> Response:
    """Returns the answer that a ModelInferResponse holds.

    asked: the names of the outputs that were asked for; none are all. shared: those of them that
    the server was to put in shared memory. request_id: as sent, where the server tells none.
    Raises RequestError for tensors that are not what the response says of them.
    """
    result = import_client("grpc").InferResult(response)
    tensors: dict[str, Any] = dict.fromkeys(name for name in asked if name not in shared)
    in_region: dict[str, SharedOutput] = {}
    try:
        for position, output in enumerate(response.outputs):
            raw = response.raw_output_contents[position : position + 1]
            shape = checked_shape(output.shape)
            datatype = checked_datatype(output.datatype)
            if output.name in shared and not any(raw):
                in_region[output.name] = SharedOutput(shape, datatype)
            else:
                tensors[output.name] = result.as_numpy(output.name)
    except (ValueError, TypeError, OverflowError, KeyError, struct.error) as error:
        raise RequestError(
            "internal", f"the server's answer cannot be read: {error}", request_id=request_id
        ) from error
    final = response.parameters.get("triton_final_response")
    return Response(
        tensors,
        in_region,
        request_id=response.id or request_id,
        final=final is None or bool(final.bool_param),
    )


def _check_size(call: Call) -> None:
    byte_size = sum(
        raw_size(each) for each in call.inputs if not isinstance(each.data, SharedSlice)
    )
    if byte_size > MOST_INPUT_BYTES:
        raise InvalidArgumentError(
            f"the inputs of a request to model '{call.model}' have {byte_size} bytes, and a gRPC "
            f"message holds {MOST_INPUT_BYTES}; put them in shared memory, or send a smaller batch"
        )


def _point_at(message: Any, place: SharedSlice) -> None:
    message.parameters["shared_memory_region"].string_param = place.region
    message.parameters["shared_memory_byte_size"].int64_param = place.byte_size
    if place.offset:
        message.parameters["shared_memory_offset"].int64_param = place.offset
