"""Triton's gRPC service, GRPCInferenceService: messages, and channels that carry them."""

from __future__ import annotations

import asyncio
import base64
import importlib
import os
import struct
from collections.abc import (
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.client.address import Address
from endcap.client.calls import (
    Call,
    Operation,
    Response,
    SharedOutput,
    SharedSlice,
    T,
    checked_datatype,
    checked_shape,
    import_client,
    parts_size,
    raw_parts,
    raw_size,
)
from endcap.client.errors import (
    RequestError,
    check_process,
    closed,
    from_grpc,
    from_stream,
    stream_closed,
)
from endcap.client.options import ConnectionOptions, Tls, check_metadata, ssl_context
from endcap.client.served_model import ModelMetadata, read_metadata
from endcap.client.trace_context import trace_headers
from endcap.errors import InvalidArgumentError

_ROOM_FOR_THE_REST = 1 << 20  # names, shapes, parameters
MOST_INPUT_BYTES = 2**31 - 1 - _ROOM_FOR_THE_REST


@dataclass(frozen=True)
class GrpcRequest:
    """A request message of the service GRPCInferenceService.

    Attributes:
        method: Its method, as "ModelInfer".
        message: The request message, of ModelInfer serialized.
    """

    method: str
    message: Any


class GrpcOperations:
    """The operations of the service. Thread-safe; raises ClientError without tritonclient."""

    def __init__(self) -> None:
        self._messages: Any = import_client("grpc").service_pb2

    def infer(self, call: Call) -> Operation[Response]:
        """Return the inference request for one call."""
        requested = [output.name for output in call.outputs]
        shared = [output.name for output in call.outputs if output.shared is not None]

        def read(response: Any) -> Response:
            return read_infer_response(response, requested, shared, call.request_id)

        return Operation(GrpcRequest("ModelInfer", infer_request(call)), read)

    def live(self) -> Operation[bool]:
        """Return the request whether the server is live."""
        return self._operation("ServerLive", lambda response: bool(response.live))

    def ready(self, model: str) -> Operation[bool]:
        """Return the request whether a model is ready."""
        return self._operation("ModelReady", lambda response: bool(response.ready), name=model)

    def ready_models(self) -> Operation[list[str]]:
        """Return the request for the names of all ready models."""
        return self._operation(
            "ModelStatistics",  # `endcap serve` closes the repository's index
            lambda response: sorted({each.name for each in response.model_stats}),
        )

    def metadata(self, model: str) -> Operation[ModelMetadata]:
        """Return the request for the tensors of a model."""

        def read(response: Any) -> ModelMetadata:
            return read_metadata(model, _tensors(response.inputs), _tensors(response.outputs))

        return self._operation("ModelMetadata", read, name=model)

    def config(self, model: str) -> Operation[dict[str, Any]]:
        """Return the request for the configuration of a model."""
        return self._operation(
            "ModelConfig", lambda response: plain_fields(response.config), name=model
        )

    def statistics(self) -> Operation[list[dict[str, Any]]]:
        """Return the request for the statistics of all models."""

        def read(response: Any) -> list[dict[str, Any]]:
            return [plain_fields(each) for each in response.model_stats]

        return self._operation("ModelStatistics", read)

    def register_system(self, name: str, key: str, byte_size: int) -> Operation[None]:
        """Return the request to register the file `key` of /dev/shm."""
        fields = {"name": name, "key": key, "offset": 0, "byte_size": byte_size}
        return self._operation("SystemSharedMemoryRegister", _nothing, **fields)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Operation[None]:
        """Return the request to register memory of a GPU; raw_handle in base64."""
        handle = base64.b64decode(raw_handle)
        fields = {"name": name, "raw_handle": handle, "device_id": device_id}
        return self._operation("CudaSharedMemoryRegister", _nothing, byte_size=byte_size, **fields)

    def unregister(self, kind: str, name: str) -> Operation[None]:
        """Return the request to unregister a region; kind is "system" or "cuda"."""
        return self._operation(f"{kind.title()}SharedMemoryUnregister", _nothing, name=name)

    def registered(self, kind: str) -> Operation[dict[str, str]]:
        """Return the request for the regions of a kind: name -> key, which is "" for CUDA."""

        def read(response: Any) -> dict[str, str]:
            return {name: getattr(region, "key", "") for name, region in response.regions.items()}

        return self._operation(f"{kind.title()}SharedMemoryStatus", read)

    def _operation(self, method: str, read: Callable[[Any], T], **fields: Any) -> Operation[T]:
        message = getattr(self._messages, f"{method}Request")(**fields)
        return Operation(GrpcRequest(method, message), read)


def _tensors(tensors: Iterable[Any]) -> list[tuple[str, str, Iterable[int]]]:
    return [(tensor.name, tensor.datatype, tensor.shape) for tensor in tensors]


def _nothing(_: Mapping[str, Any]) -> None:
    return None


class StreamMessages:
    """The messages of one stream, which is for one model."""

    def __init__(self) -> None:
        self._shared: set[str] = set()
        self._model: str | None = None

    def request(self, call: Call) -> bytes:
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


# The field raw_input_contents of a ModelInferRequest: number 7, length-delimited.
_RAW_CONTENT = b"\x3a"


def infer_request(call: Call, *, decoupled: bool = False) -> bytes:
    """Return the serialized ModelInferRequest of a call, a copy of its tensors.

    Protobuf would copy each tensor three times: into a bytes object, into the message and into its
    serialization. Here the contents are joined to the serialized rest, which they follow in the
    order of fields anyway.

    Args:
        call: The call.
        decoupled: Whether to request an empty final response from models that do not mark their
            last one. For streams.

    Raises:
        InvalidArgumentError: The inputs exceed the size of a message.
    """
    _check_size(call)
    request = import_client("grpc").service_pb2.ModelInferRequest(
        model_name=call.model, id=call.request_id
    )
    contents: list[bytes | memoryview] = []
    for tensor in call.inputs:
        message = request.inputs.add(
            name=tensor.name, datatype=tensor.datatype, shape=list(tensor.shape)
        )
        if isinstance(tensor.data, SharedSlice):
            _point_at(message, tensor.data)
        else:
            parts = raw_parts(tensor)
            contents += [_RAW_CONTENT, _varint(parts_size(parts)), *parts]
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
    if call.timeout_us is not None:
        request.parameters["timeout"].int64_param = call.timeout_us
    if decoupled:
        request.parameters["triton_enable_empty_final_response"].bool_param = True
    return b"".join([request.SerializeToString(), *contents])


def _varint(number: int) -> bytes:
    """Return a number in protobuf's encoding: 7 bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_infer_response(
    response: Any, requested: Collection[str], shared: Collection[str], request_id: str = ""
) -> Response:
    """Return the response that a ModelInferResponse holds.

    Args:
        response: The message.
        requested: The names of the requested outputs; none are all.
        shared: Those of them whose tensors the server writes to shared memory.
        request_id: As sent, for a response without one.

    Raises:
        RequestError: The tensors do not match their shapes and data types.
    """
    result = import_client("grpc").InferResult(response)
    tensors: dict[str, Any] = dict.fromkeys(name for name in requested if name not in shared)
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
            "internal", f"the server's response cannot be read: {error}", request_id=request_id
        ) from error
    final = response.parameters.get("triton_final_response")
    return Response(
        tensors,
        in_region,
        request_id=response.id or request_id,
        final=final is None or bool(final.bool_param),
    )


def _check_size(call: Call) -> None:
    total = sum(raw_size(each) for each in call.inputs if not isinstance(each.data, SharedSlice))
    if total > MOST_INPUT_BYTES:
        raise InvalidArgumentError(
            f"the inputs of a request to model '{call.model}' have {total} bytes, and a gRPC "
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


_MOST_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
# Reconnect soon after a restart; by default gRPC waits up to two minutes between attempts.
_RECONNECT_MS = {"initial": 100, "max": 2000}


class GrpcTransport:
    """A channel to one server. Thread-safe. In a forked child it raises ClientError."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        self._setup = _ChannelSetup(address, options)
        self._channel: Any = self._setup.open(self._grpc)
        self._stub = _service_stub(self._channel)
        self._process = os.getpid()
        self._closed = False

    def send(self, request: GrpcRequest, timeout_s: float) -> Any:
        """Return the response message; raise RequestError or TimeoutError without one."""
        check_process(self._process)
        method = getattr(self._stub, request.method)
        try:
            return method(request.message, timeout=timeout_s, **self._setup.call_arguments())
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else _rpc_error(error)) from error
        except ValueError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, messages: Iterable[bytes]) -> Any:
        """Return the call of a stream: an iterator of responses that has cancel()."""
        check_process(self._process)
        if self._closed:
            raise closed()
        return self._stub.ModelStreamInfer(messages, **self._setup.call_arguments())

    def stream_error(self, error: BaseException) -> RequestError:
        """Return the RequestError for an error of a stream's call."""
        return closed() if self._closed else _convert_stream_error(error)

    def close(self) -> None:
        """Close the channel; requests in flight end as cancelled."""
        self._closed = True
        if self._process == os.getpid():
            self._channel.close()


class AsyncGrpcTransport:
    """GrpcTransport for asyncio; it belongs to the event loop and process of its first request."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        self._aio = importlib.import_module("grpc.aio")
        import_client("grpc")  # an error here, not with the first request
        self._setup = _ChannelSetup(address, options)
        self._channel: Any = None
        self._stub: Any = None
        self._process = 0  # the process that opened it
        self._closed = False

    async def send(self, request: GrpcRequest, timeout_s: float) -> Any:
        """Return the response message; raise RequestError or TimeoutError without one.

        A task that is cancelled here cancels its request in the server.
        """
        method = getattr(self._opened(), request.method)
        try:
            call = method(request.message, timeout=timeout_s, **self._setup.call_arguments())
            await _until_done(call)
            # gRPC would raise CancelledError, as if this task had been cancelled.
            if call.cancelled():
                raise closed() if self._closed else from_grpc("CANCELLED", await call.details())
            return await call
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else _rpc_error(error)) from error
        except self._aio.UsageError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, messages: AsyncIterable[bytes]) -> Any:
        """Return the call of a stream: an asynchronous iterator of responses that has cancel()."""
        return self._opened().ModelStreamInfer(messages, **self._setup.call_arguments())

    def stream_error(self, error: BaseException) -> RequestError:
        """Return the RequestError for an error of a stream's call."""
        return closed() if self._closed else _convert_stream_error(error)

    async def close(self) -> None:
        """Close the channel; requests in flight end as cancelled."""
        self._closed = True
        if self._channel is not None and self._process == os.getpid():
            await self._channel.close()

    def _opened(self) -> Any:
        if self._closed:
            raise closed()
        if self._stub is None:
            self._process = os.getpid()
            self._channel = self._setup.open(self._aio)
            self._stub = _service_stub(self._channel)
        check_process(self._process)
        return self._stub


def _service_stub(channel: Any) -> Any:
    """Return the stub of the service on a channel, whose inference takes serialized requests."""
    grpc_client = import_client("grpc")
    stub = grpc_client.service_pb2_grpc.GRPCInferenceServiceStub(channel)
    service = grpc_client.service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
    read = grpc_client.service_pb2.ModelInferResponse.FromString
    stub.ModelInfer = channel.unary_unary(f"/{service}/ModelInfer", response_deserializer=read)
    read = grpc_client.service_pb2.ModelStreamInferResponse.FromString
    stub.ModelStreamInfer = channel.stream_stream(
        f"/{service}/ModelStreamInfer", response_deserializer=read
    )
    return stub


class _ChannelSetup:
    """The arguments of a channel and of each call, for grpc and grpc.aio."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        grpc = importlib.import_module("grpc")
        check_metadata(options.headers)
        self._authority = address.authority
        self._credentials = _credentials(options.tls or Tls()) if address.secure else None
        self._arguments = _channel_arguments(options)
        compression = {None: "NoCompression", "gzip": "Gzip", "deflate": "Deflate"}
        self._compression = getattr(grpc.Compression, compression[options.compression])
        self._headers = {name.lower(): value for name, value in options.headers.items()}

    def call_arguments(self) -> dict[str, Any]:
        """Return the arguments of a call that is about to be made."""
        trace = {name.lower(): value for name, value in trace_headers(self._headers).items()}
        metadata = tuple({**trace, **self._headers}.items())
        return {"metadata": metadata, "compression": self._compression}

    def open(self, module: Any) -> Any:
        """Return a channel of `module`: grpc or grpc.aio."""
        insecure: Callable[..., Any] = module.insecure_channel
        if self._credentials is None:
            return insecure(self._authority, options=self._arguments)
        return module.secure_channel(self._authority, self._credentials, options=self._arguments)


def _credentials(tls: Tls) -> Any:
    """Return gRPC's channel credentials; InvalidArgumentError where gRPC has no such option."""
    if not tls.verify:
        raise InvalidArgumentError(
            "TLS's verify is False: gRPC always verifies the server's certificate; pass its "
            "authority as ca"
        )
    ssl_context(tls)  # gRPC would report a file that is no PEM only with the first request
    files = [None if path is None else Path(path) for path in (tls.ca, tls.key, tls.certificate)]
    return importlib.import_module("grpc").ssl_channel_credentials(
        *(None if file is None else file.read_bytes() for file in files)
    )


def _channel_arguments(options: ConnectionOptions) -> list[tuple[str, int]]:
    arguments = [
        ("grpc.max_send_message_length", _MOST_BYTES),
        ("grpc.max_receive_message_length", _MOST_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS["initial"]),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS["max"]),
    ]
    keepalive = options.keepalive
    if keepalive is not None:
        arguments += [
            ("grpc.keepalive_time_ms", round(keepalive.time_s * 1e3)),
            ("grpc.keepalive_timeout_ms", round(keepalive.timeout_s * 1e3)),
            # Recent releases wait this long for the response to any ping, by default a minute.
            ("grpc.http2.ping_timeout_ms", round(keepalive.timeout_s * 1e3)),
            ("grpc.keepalive_permit_without_calls", int(keepalive.without_calls)),
            ("grpc.http2.max_pings_without_data", keepalive.max_pings_without_data),
        ]
    return arguments


def _rpc_error(error: Any) -> RequestError | TimeoutError:
    status = error.code().name
    if status == "DEADLINE_EXCEEDED":
        return TimeoutError()
    return from_grpc(status, error.details() or status)


def _convert_stream_error(error: BaseException) -> RequestError:
    if isinstance(error, importlib.import_module("grpc").RpcError):
        status = error.code().name
        if status == "CANCELLED":
            return stream_closed()
        return from_grpc(status, error.details() or status)
    if isinstance(error, asyncio.CancelledError):
        return stream_closed()
    return RequestError("internal", f"the stream has ended by {type(error).__name__}: {error}")


async def _until_done(call: Any) -> None:
    """Wait for a call, so that a CancelledError is that of the waiting task."""
    done = asyncio.Event()
    call.add_done_callback(lambda _: done.set())
    try:
        await done.wait()
    except asyncio.CancelledError:
        call.cancel()
        raise
