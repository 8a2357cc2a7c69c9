"""Triton's HTTP service: requests, and responses read.

Source of the paths and bodies: the KServe v2 protocol and Triton's extensions of it
(model_repository, model_configuration, shared_memory).
"""

from __future__ import annotations

import gzip
import importlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from endcap.client.calls import (
    Call,
    Operation,
    OutputTensor,
    Response,
    SharedOutput,
    SharedSlice,
    T,
    checked_datatype,
    checked_shape,
    import_client,
    parts_size,
    raw_parts,
)
from endcap.client.errors import RequestError, ResponseTooLargeError, from_http, not_triton
from endcap.client.grpc import plain_fields
from endcap.client.options import Compression
from endcap.client.served_model import ModelMetadata, read_metadata

MOST_BYTES = 2**31 - 1  # of a response, also inflated; gRPC's limit
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_LEVEL = 6  # gRPC's; from there on it takes much longer for little


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request. path: with the slash before it, percent-encoded."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response. headers: their names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpOperations:
    """The operations of the service. Thread-safe; raises ClientError without tritonclient."""

    def __init__(self, compression: Compression | None = None) -> None:
        self._compression = compression
        import_client("http")

    def infer(self, call: Call) -> Operation[Response]:
        """Return the inference request for one call."""
        request = infer_request(call, self._compression)
        return Operation(
            request, lambda response: read_infer_response(response, call, self._compression)
        )

    def live(self) -> Operation[bool]:
        """Return the request whether the server is live."""
        return Operation(HttpRequest("GET", "/v2/health/live"), _is_ok)

    def ready(self, model: str) -> Operation[bool]:
        """Return the request whether a model is ready."""
        return Operation(HttpRequest("GET", f"{_path(model)}/ready"), _is_ok)

    def ready_models(self) -> Operation[list[str]]:
        """Return the request for the names of all ready models."""

        def read(document: Any) -> list[str]:
            return sorted({str(each["name"]) for each in document.get("model_stats", [])})

        # Of the statistics: `endcap serve` closes the repository's index.
        return _get("/v2/models/stats", read)

    def metadata(self, model: str) -> Operation[ModelMetadata]:
        """Return the request for the tensors of a model."""

        def read(document: Any) -> ModelMetadata:
            return read_metadata(
                model, _tensors(document.get("inputs", [])), _tensors(document.get("outputs", []))
            )

        return _get(_path(model), read)

    def config(self, model: str) -> Operation[dict[str, Any]]:
        """Return the request for the configuration of a model."""
        return _get(f"{_path(model)}/config", lambda document: config_from_json(model, document))

    def statistics(self) -> Operation[list[dict[str, Any]]]:
        """Return the request for the statistics of all models."""
        return _get("/v2/models/stats", statistics_from_json)

    def register_system(self, name: str, key: str, byte_size: int) -> Operation[None]:
        """Return the request to register the file `key` of /dev/shm."""
        fields = {"key": key, "offset": 0, "byte_size": byte_size}
        return _post(f"{_region('system', name)}/register", _nothing, fields)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Operation[None]:
        """Return the request to register memory of a GPU; raw_handle in base64."""
        handle = {"b64": raw_handle.decode("ascii")}
        fields = {"raw_handle": handle, "device_id": device_id, "byte_size": byte_size}
        return _post(f"{_region('cuda', name)}/register", _nothing, fields)

    def unregister(self, kind: str, name: str) -> Operation[None]:
        """Return the request to unregister a region; kind is "system" or "cuda"."""
        return _post(f"{_region(kind, name)}/unregister", _nothing)

    def registered(self, kind: str) -> Operation[dict[str, str]]:
        """Return the request for the regions of a kind: name -> key, which is "" for CUDA."""

        def read(rows: Any) -> dict[str, str]:
            return {str(row["name"]): str(row.get("key", "")) for row in rows}

        return _get(f"/v2/{kind}sharedmemory/status", read)


def _get(path: str, read: Callable[[Any], T]) -> Operation[T]:
    return Operation(HttpRequest("GET", path), lambda response: read_json(response, read))


def _post(path: str, read: Callable[[Any], T], fields: object = None) -> Operation[T]:
    body = b"" if fields is None else json.dumps(fields).encode()
    headers = {"Content-Type": "application/json"}
    request = HttpRequest("POST", path, body, headers)
    return Operation(request, lambda response: read_json(response, read))


def read_json(response: HttpResponse, read: Callable[[Any], T]) -> T:
    """Return the result of `read` for a response's JSON, None for an empty body.

    Raises:
        RequestError: The server reports an error, or is not a Triton server.
    """
    if response.status != 200:
        raise from_http(response.status, response.body)
    try:
        return read(json.loads(response.body) if response.body else None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise not_triton("http") from error


def _is_ok(response: HttpResponse) -> bool:
    return response.status == 200


def _path(model: str) -> str:
    return f"/v2/models/{quote(model, safe='')}"


def _region(kind: str, name: str) -> str:
    return f"/v2/{kind}sharedmemory/region/{quote(name, safe='')}"


def _tensors(rows: Any) -> list[tuple[Any, Any, list[Any]]]:
    return [(row["name"], row["datatype"], list(row["shape"])) for row in rows]


def _nothing(_: Any) -> None:
    return None


def infer_request(call: Call, compression: Compression | None) -> HttpRequest:
    """Return the request of a call: JSON, and behind it its tensors in binary, copied once."""
    document: dict[str, Any] = {"id": call.request_id} if call.request_id else {}
    contents: list[bytes | memoryview] = []
    document["inputs"] = []
    for tensor in call.inputs:
        declared: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": [int(side) for side in tensor.shape],
        }
        if isinstance(tensor.data, SharedSlice):
            declared["parameters"] = _place(tensor.data)
        else:
            parts = raw_parts(tensor)
            declared["parameters"] = {"binary_data_size": parts_size(parts)}
            contents += parts
        document["inputs"].append(declared)
    document["outputs"] = [_output(each) for each in call.outputs]
    # Without a list of outputs the model returns all of them.
    document["parameters"] = {} if call.outputs else {"binary_data_output": True}
    if call.sequence is not None:
        document["parameters"] |= {
            "sequence_id": call.sequence.id,
            "sequence_start": call.sequence.start,
            "sequence_end": call.sequence.end,
        }
    if call.timeout_us is not None:
        document["parameters"]["timeout"] = call.timeout_us
    header = json.dumps(document).encode()
    body = b"".join([header, *contents])
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(header)),
    }
    if compression is not None:
        body = gzip.compress(body, _LEVEL) if compression == "gzip" else zlib.compress(body, _LEVEL)
        headers |= {"Content-Encoding": compression, "Accept-Encoding": compression}
    return HttpRequest("POST", f"/v2/models/{quote(call.model, safe='')}/infer", body, headers)


def _output(output: OutputTensor) -> dict[str, Any]:
    parameters: dict[str, Any] = {"binary_data": True}
    if output.shared is not None:
        parameters = _place(output.shared)
    if output.class_count:
        parameters["classification"] = output.class_count
    return {"name": output.name, "parameters": parameters}


def _place(shared: SharedSlice) -> dict[str, Any]:
    place = {"shared_memory_region": shared.region, "shared_memory_byte_size": shared.byte_size}
    return place | ({"shared_memory_offset": shared.offset} if shared.offset else {})


def read_infer_response(
    response: HttpResponse, call: Call, compression: Compression | None
) -> Response:
    """Return the response to a call.

    Args:
        response: The HTTP response.
        call: The call.
        compression: That of the request.

    Raises:
        RequestError: The server reports an error, or the tensors do not match their shapes and data
            types.
    """
    if response.status != 200:
        raise from_http(response.status, response.body, request_id=call.request_id)
    shared = {output.name for output in call.outputs if output.shared is not None}
    tensors: dict[str, Any] = {}
    in_region: dict[str, SharedOutput] = {}
    try:
        result = import_client("http").InferenceServerClient.parse_response_body(
            inflate(response.body, response.headers.get("content-encoding"), compression),
            header_length=response.headers.get("inference-header-content-length"),
        )
        header = result.get_response()
        for output in header.get("outputs", []):
            name = output["name"]
            shape = checked_shape(output["shape"])
            datatype = checked_datatype(output["datatype"])
            if name in shared:
                in_region[name] = SharedOutput(shape, datatype)
            else:
                tensors[name] = result.as_numpy(name)
        request_id = header.get("id", call.request_id)
        if request_id != call.request_id:
            raise ValueError(f"it is for the request {request_id!r}")
    except (*_UNREADABLE, _tritonclient_error()) as error:
        raise RequestError(
            "internal", f"the server's response cannot be read: {error}", request_id=call.request_id
        ) from error
    requested = dict.fromkeys(o.name for o in call.outputs if o.name not in shared)
    return Response({**requested, **tensors}, in_region, request_id=request_id)


_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,  # of numbers that their type does not hold
    KeyError,
    AttributeError,
    RecursionError,  # of JSON
    struct.error,
)


def _tritonclient_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("tritonclient.utils").InferenceServerException
    return error


def config_from_json(model: str, document: Any) -> dict[str, Any]:
    """Return the configuration that Triton's HTTP service sends, in the form of `plain_fields`.

    Fields that tritonclient does not know are omitted, as over gRPC.

    Raises:
        RequestError: It is no configuration.
    """
    message = import_client("grpc").model_config_pb2.ModelConfig()
    return _parsed(document, message, f"the configuration of model '{model}'")


def statistics_from_json(document: Any) -> list[dict[str, Any]]:
    """Return each model's statistics in the form of `plain_fields`; see `config_from_json`."""
    message = import_client("grpc").service_pb2.ModelStatisticsResponse()
    models: list[dict[str, Any]] = _parsed(document, message, "the statistics").get(
        "model_stats", []
    )
    return models


def _parsed(document: Any, message: Any, what: str) -> dict[str, Any]:
    json_format = importlib.import_module("google.protobuf.json_format")
    try:
        json_format.ParseDict(dict(document), message, ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError) as error:
        raise RequestError("internal", f"{what} cannot be read: {error}") from error
    return plain_fields(message)


def check_size(byte_size: int, most_bytes: int) -> None:
    """Raise ResponseTooLargeError for a response above the size limit."""
    if byte_size > most_bytes:
        raise ResponseTooLargeError(
            "internal",
            f"the server's response is larger than {most_bytes} bytes, the limit; request fewer "
            "outputs, or in smaller batches",
        )


def inflate(body: bytes, encoding: str | None, requested: Compression | None) -> bytes:
    """Return a body decompressed by its header Content-Encoding.

    Args:
        body: The body.
        encoding: The header; None is no compression.
        requested: The compression that the request accepts.

    Raises:
        ValueError: The body has another compression, or is corrupt.
        RequestError: The decompressed body exceeds the size limit.
    """
    if not encoding or encoding == "identity":
        return body
    if requested is None or encoding != requested:
        raise ValueError(f"it is compressed as {encoding!r}, which was not requested")
    stream = zlib.decompressobj(_WINDOW_BITS[requested])
    try:
        content = stream.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it is no {encoding}: {error}") from error
    check_size(len(content), MOST_BYTES)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is no whole {encoding}")
    return content
