"""Triton's gRPC service, GRPCInferenceService: requests as messages, and responses read."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any

from endcap.client.calls import Call, Response, SharedOutput, SharedSlice
from endcap.client.errors import RequestError
from endcap.client.served_model import ModelMetadata, read_metadata
from endcap.client.wire.errors import from_stream
from endcap.client.wire.exchange import Exchange, GrpcRequest, T, import_client
from endcap.client.wire.tensors import (
    checked_datatype,
    checked_shape,
    raw_bytes,
    raw_size,
)
from endcap.errors import InvalidArgumentError

_ROOM_FOR_THE_REST = 1 << 20  # names, shapes, parameters
MOST_INPUT_BYTES = 2**31 - 1 - _ROOM_FOR_THE_REST


class GrpcProtocol:
    """What a client asks. Thread-safe; ClientError where tritonclient is missing."""

    def __init__(self) -> None:
        self._messages: Any = import_client("grpc").service_pb2

    def infer(self, call: Call) -> Exchange[Response]:
        """Run a model once."""
        asked = [output.name for output in call.outputs]
        shared = [output.name for output in call.outputs if output.shared is not None]

        def read(response: Any) -> Response:
            return read_infer_response(response, asked, shared, call.request_id)

        return Exchange(GrpcRequest("ModelInfer", infer_request(call)), read)

    def live(self) -> Exchange[bool]:
        """Whether the server answers."""
        return self._exchange("ServerLive", lambda response: bool(response.live))

    def ready(self, model: str) -> Exchange[bool]:
        """Whether it serves a model."""
        return self._exchange("ModelReady", lambda response: bool(response.ready), name=model)

    def ready_models(self) -> Exchange[list[str]]:
        """The names of all that it serves."""
        return self._exchange(
            "ModelStatistics",  # `endcap serve` closes the repository's index
            lambda response: sorted({each.name for each in response.model_stats}),
        )

    def metadata(self, model: str) -> Exchange[ModelMetadata]:
        """The tensors of a model."""

        def read(response: Any) -> ModelMetadata:
            return read_metadata(model, _tensors(response.inputs), _tensors(response.outputs))

        return self._exchange("ModelMetadata", read, name=model)

    def config(self, model: str) -> Exchange[dict[str, Any]]:
        """The configuration of a model."""
        return self._exchange(
            "ModelConfig", lambda response: plain_fields(response.config), name=model
        )

    def statistics(self) -> Exchange[list[dict[str, Any]]]:
        """What the server has counted of each of its models."""

        def read(response: Any) -> list[dict[str, Any]]:
            return [plain_fields(each) for each in response.model_stats]

        return self._exchange("ModelStatistics", read)

    def register_system(self, name: str, key: str, byte_size: int) -> Exchange[None]:
        """Make the file `key` of /dev/shm known to the server."""
        fields = {"name": name, "key": key, "offset": 0, "byte_size": byte_size}
        return self._exchange("SystemSharedMemoryRegister", _nothing, **fields)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Exchange[None]:
        """Make memory of a GPU known to the server; raw_handle in base64."""
        handle = base64.b64decode(raw_handle)
        fields = {"name": name, "raw_handle": handle, "device_id": device_id}
        return self._exchange("CudaSharedMemoryRegister", _nothing, byte_size=byte_size, **fields)

    def unregister(self, kind: str, name: str) -> Exchange[None]:
        """End that; kind as "system"."""
        return self._exchange(f"{kind.title()}SharedMemoryUnregister", _nothing, name=name)

    def registered(self, kind: str) -> Exchange[dict[str, str]]:
        """The regions of a kind: name -> key, which is "" for CUDA."""

        def read(response: Any) -> dict[str, str]:
            return {name: getattr(region, "key", "") for name, region in response.regions.items()}

        return self._exchange(f"{kind.title()}SharedMemoryStatus", read)

    def _exchange(self, method: str, read: Callable[[Any], T], **fields: Any) -> Exchange[T]:
        message = getattr(self._messages, f"{method}Request")(**fields)
        return Exchange(GrpcRequest(method, message), read)


def _tensors(tensors: Iterable[Any]) -> list[tuple[str, str, Iterable[int]]]:
    return [(tensor.name, tensor.datatype, tensor.shape) for tensor in tensors]


def _nothing(_: Mapping[str, Any]) -> None:
    return None


class StreamMessages:
    """The messages of one stream, which is for one model."""

    def __init__(self) -> None:
        self._shared: set[str] = set()
        self._model: str | None = None

    def request(self, call: Call) -> Any:
        """Return the message to send; InvalidArgumentError for another model than the first's."""
        if self._model not in (None, call.model):
            raise InvalidArgumentError(
                f"this stream is for the model '{self._model}': open another one for "
                f"'{call.model}'; a server may abort where models share a stream"
            )
        request = infer_request(call, decoupled=True)
        self._model = call.model
        self._shared |= {output.name for output in call.outputs if output.shared is not None}
        return request

    def read(self, message: Any) -> Response:
        """Return the response that a message holds; RequestError where it is an error."""
        if message.error_message:
            raise from_stream(message.error_message, request_id=message.infer_response.id)
        return read_infer_response(message.infer_response, (), self._shared)


def infer_request(call: Call, *, decoupled: bool = False) -> Any:
    """Return the ModelInferRequest of a call.

    Args:
        decoupled: Whether the server is to say with an empty response that no other follows, where
            the model has not said so with its last one. For streams. Raises InvalidArgumentError
            for one whose inputs are more than a message can hold.
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
        step = call.sequence
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
    """Return the response that a ModelInferResponse holds.

    Args:
        asked: The names of the outputs that were asked for; none are all.
        shared: Those of them that the server was to put in shared memory.
        request_id: As sent, where the server tells none. Raises RequestError for tensors that are
            not what the response says of them.
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


def plain_fields(message: Any) -> dict[str, Any]:
    """Return the fields of a protobuf message that are set, as JSON would have them.

    Numbers stay numbers, those of 64 bits, too; enumerations are names.
    """
    return {field.name: _plain(value, field) for field, value in message.ListFields()}


def _plain(value: Any, field: Any) -> Any:
    if isinstance(value, MutableMapping):
        of_values = field.message_type.fields_by_name["value"]
        return {key: _plain(each, of_values) for key, each in value.items()}
    if isinstance(value, MutableSequence):
        return [_plain(each, field) for each in value]
    if field.message_type is not None:
        return plain_fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
