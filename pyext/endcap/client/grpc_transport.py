"""Requests over gRPC: the clients of `tritonclient.grpc` and `tritonclient.grpc.aio`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, MutableMapping, MutableSequence
from pathlib import Path
from typing import Any

from endcap.client.address import Address
from endcap.client.calls import (
    Call,
    Response,
    SharedSlice,
    import_client,
    infer_arguments,
    read_response,
)
from endcap.client.concurrency import Runtime, Tasks, finish
from endcap.client.errors import (
    RequestError,
    check_process,
    closed,
    from_grpc,
    from_stream,
    stream_closed,
)
from endcap.client.options import ConnectionOptions, Tls, check_metadata, ssl_context
from endcap.client.trace_context import trace_headers
from endcap.errors import InvalidArgumentError

_MAX_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
_MAX_INPUT_BYTES = _MAX_BYTES - (1 << 20)  # the rest is for names, shapes and parameters
# Reconnect soon after a restart; by default gRPC waits up to two minutes between attempts.
_RECONNECT_MS = {"initial": 100, "max": 2000}


class GrpcTransport:
    """One channel to a server, opened by the first request.

    It is thread-safe with `Threads`, and belongs to one event loop with `Tasks`. In a forked child
    it raises ClientError.
    """

    def __init__(self, address: Address, options: ConnectionOptions, runtime: Runtime) -> None:
        check_metadata(options.headers)
        self._tritonclient = import_client("grpc")
        self._aio = ".aio" if isinstance(runtime, Tasks) else ""
        self._authority = address.authority
        self._tls = _tls_arguments(options.tls or Tls()) if address.secure else {}
        self._channel_arguments = _channel_arguments(options)
        self._compression = options.compression
        self._headers = {name.lower(): value for name, value in options.headers.items()}
        self._client: Any = None
        self._process = os.getpid()
        self._is_closed = False
        if not self._aio:
            self._open()  # here: threads would open several

    async def infer(self, call: Call, timeout_s: float) -> Response:
        """Send an inference request; see `send`."""
        arguments = infer_arguments(self._tritonclient, call)
        _check_size(call)
        arguments["compression_algorithm"] = self._compression
        return read_message((await self._send("infer", timeout_s, arguments)).get_response(), call)

    async def send(self, method: str, timeout_s: float, **arguments: Any) -> Any:
        """Return the response to another method of tritonclient, as JSON objects.

        Raises:
            RequestError: The server does not respond, or responds with an error.
            TimeoutError: There is none within `timeout_s`.
        """
        response = await self._send(method, timeout_s, arguments)
        return plain_fields(response) if hasattr(response, "ListFields") else response

    def stream(self, requests: Any) -> Any:
        """Return the call of a stream: an iterator of responses that has cancel().

        tritonclient's own streams do not report their end, nor with asyncio the last response of a
        decoupled model.
        """
        self._open()
        service = import_client("grpc.service_pb2_grpc").GRPCInferenceServiceStub(
            self._client._channel
        )
        utils = import_client("grpc._utils")
        compression = utils._grpc_compression_type(self._compression)
        metadata = tuple(self._call_headers().items())
        return service.ModelStreamInfer(requests, metadata=metadata, compression=compression)

    def stream_request(self, call: Call) -> Any:
        """Return the message to send for a call."""
        arguments = {"model_version": "", "priority": 0, "parameters": None}
        arguments |= {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
        arguments |= infer_arguments(self._tritonclient, call)
        _check_size(call)
        request = import_client("grpc._utils")._get_inference_request(**arguments)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        return request

    def stream_error(self, error: BaseException) -> RequestError:
        """Return the RequestError for an error of a stream's call."""
        if self._is_closed:
            return closed()
        status = error.code().name if hasattr(error, "code") else ""
        if status == "CANCELLED" or isinstance(error, asyncio.CancelledError):
            return stream_closed()
        if status:
            return from_grpc(status, error.details() or status)  # type: ignore[attr-defined]
        return RequestError("internal", f"the stream has ended by {type(error).__name__}: {error}")

    async def close(self) -> None:
        """Close the channel; requests in flight end as cancelled."""
        self._is_closed = True
        if self._client is not None and self._process == os.getpid():
            await finish(self._client.close())

    def _open(self) -> None:
        if self._is_closed:
            raise closed()
        if self._client is None:
            self._process = os.getpid()
            self._client = import_client(f"grpc{self._aio}").InferenceServerClient(
                self._authority, channel_args=self._channel_arguments, **self._tls
            )
        check_process(self._process)

    async def _send(self, method: str, timeout_s: float, arguments: dict[str, Any]) -> Any:
        self._open()
        arguments |= {"headers": self._call_headers(), "client_timeout": timeout_s}
        try:
            return await finish(getattr(self._client, method)(**arguments), timeout_s)
        except import_client("utils").InferenceServerException as error:
            if self._is_closed:
                raise closed() from error
            status = str(error.status()).removeprefix("StatusCode.")
            if status == "DEADLINE_EXCEEDED":
                raise TimeoutError from error
            raise from_grpc(status, str(error.message() or status)) from error
        except InterruptedError as error:
            raise (closed() if self._is_closed else from_grpc("CANCELLED", "CANCELLED")) from error
        except Exception as error:  # of a channel that another thread or task has closed
            if self._is_closed:
                raise closed() from error
            raise

    def _call_headers(self) -> dict[str, str]:
        trace = {name.lower(): value for name, value in trace_headers(self._headers).items()}
        return {**trace, **self._headers}


def read_message(message: Any, call: Call) -> Response:
    """Return the response to a call that a ModelInferResponse holds."""
    outputs = [(each.name, each.shape, each.datatype) for each in message.outputs]
    final = message.parameters.get("triton_final_response")
    return read_response(
        call,
        outputs,
        import_client("grpc").InferResult(message).as_numpy,
        message.id or call.request_id,
        final=final is None or bool(final.bool_param),
    )


def read_stream_message(message: Any, call: Call) -> Response:
    """Return what a response of a stream holds; RequestError where it is an error."""
    if message.error_message:
        raise from_stream(message.error_message, request_id=message.infer_response.id)
    return read_message(message.infer_response, call)


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


def _check_size(call: Call) -> None:
    sizes: Iterable[int] = (
        sum(map(len, tensor.data.flat)) if tensor.datatype == "BYTES" else tensor.data.nbytes
        for tensor in call.inputs
        if not isinstance(tensor.data, SharedSlice)
    )
    total = sum(sizes)
    if total > _MAX_INPUT_BYTES:
        raise InvalidArgumentError(
            f"the inputs of a request to model '{call.model}' have {total} bytes, and a gRPC "
            f"message holds {_MAX_INPUT_BYTES}; put them in shared memory, or send a smaller batch"
        )


def _tls_arguments(tls: Tls) -> dict[str, Any]:
    """Return arguments of a client; InvalidArgumentError where gRPC has no such option."""
    if not tls.verify:
        raise InvalidArgumentError(
            "TLS's verify is False: gRPC always verifies the server's certificate; pass its "
            "authority as ca"
        )
    ssl_context(tls)  # gRPC would report a file that is not PEM only with the first request
    return {
        "ssl": True,
        "root_certificates": None if tls.ca is None else Path(tls.ca),
        "private_key": None if tls.key is None else Path(tls.key),
        "certificate_chain": None if tls.certificate is None else Path(tls.certificate),
    }


def _channel_arguments(options: ConnectionOptions) -> list[tuple[str, int]]:
    arguments = [
        ("grpc.max_send_message_length", _MAX_BYTES),
        ("grpc.max_receive_message_length", _MAX_BYTES),
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
