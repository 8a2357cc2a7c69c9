"""tritonclient's clients for gRPC: their options, arguments, responses and errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endcap.client.calls import Call, Response, import_client, infer_arguments, read_response
from endcap.client.errors import RequestError, from_grpc
from endcap.client.options import Address, ConnectionOptions, Tls, ssl_context
from endcap.errors import InvalidArgumentError

_MAX_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
# Reconnect soon after a restart; by default gRPC waits up to two minutes between attempts.
_RECONNECT_MS = {"initial": 100, "max": 2000}


class GrpcTransport:
    """One channel to a server. It is thread-safe, with asyncio for the tasks of one event loop."""

    def __init__(self, address: Address, options: ConnectionOptions, *, is_async: bool) -> None:
        self.errors = (import_client("utils").InferenceServerException,)
        self._tritonclient = import_client("grpc")
        self._class = import_client("grpc.aio" if is_async else "grpc").InferenceServerClient
        self._authority = address.authority
        self._tls = _tls_arguments(options.tls or Tls()) if address.secure else {}
        self._channel_arguments = _channel_arguments(options)
        self._compression = options.compression

    def open(self) -> Any:
        """Return a client of tritonclient."""
        return self._class(self._authority, channel_args=self._channel_arguments, **self._tls)

    def close(self, client: Any, in_flight: set[Any]) -> Any:
        """Close a client, which cancels what is in flight; return what is to be awaited."""
        return client.close()

    def arguments(
        self, method: str, headers: Mapping[str, str], timeout_s: float
    ) -> dict[str, Any]:
        """Return the arguments that any method of the client takes."""
        metadata = {name.lower(): value for name, value in headers.items()}
        as_json = {"as_json": True} if method.startswith("get_") else {}
        return {"headers": metadata, "client_timeout": timeout_s, **as_json}

    def infer_arguments(self, call: Call) -> dict[str, Any]:
        """Return the arguments of the client's `infer`."""
        arguments = infer_arguments(self._tritonclient, call)
        return arguments | {"compression_algorithm": self._compression}

    def read_inference(self, result: Any, call: Call) -> Response:
        """Return what the client's `infer` returned, checked."""
        return read_message(result.get_response(), call)

    def read_config(self, response: Any) -> dict[str, Any]:
        """Return the configuration of a model."""
        return dict(response.get("config", {}))

    def read_regions(self, response: Any) -> dict[str, str]:
        """Return the keys of the registered regions by their names."""
        return {name: each.get("key", "") for name, each in response.get("regions", {}).items()}

    def error(self, error: Any) -> Exception:
        """Return the error to raise for one of `errors`: a RequestError or a TimeoutError."""
        status = str(error.status()).removeprefix("StatusCode.")
        if status == "DEADLINE_EXCEEDED":
            return TimeoutError()
        return from_grpc(status, str(error.message() or status))

    def interrupted(self) -> RequestError:
        """Return the error of a request that the server has cancelled."""
        return from_grpc("CANCELLED", "CANCELLED")

    def start_stream(self, client: Any, requests: Any, headers: Mapping[str, str]) -> Any:
        """Return the call of a stream: an iterator of responses that has cancel().

        tritonclient's own streams do not report their end, nor with asyncio the last response of a
        decoupled model.
        """
        service = import_client("grpc.service_pb2_grpc").GRPCInferenceServiceStub(client._channel)
        compression = import_client("grpc._utils")._grpc_compression_type(self._compression)
        metadata = tuple((name.lower(), value) for name, value in headers.items())
        return service.ModelStreamInfer(requests, metadata=metadata, compression=compression)

    def stream_request(self, call: Call) -> Any:
        """Return the message to send for a call over a stream."""
        arguments = {"model_version": "", "priority": 0, "parameters": None}
        arguments |= {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
        arguments |= infer_arguments(self._tritonclient, call)
        request = import_client("grpc._utils")._get_inference_request(**arguments)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        return request


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
