"""Inference over HTTP: Call to the body of a request, the body of a response to Response."""

from __future__ import annotations

import gzip
import importlib
import struct
import zlib
from typing import Any
from urllib.parse import quote

from endcap.client.calls import Call, InputTensor, OutputTensor, Response, SharedOutput, SharedSlice
from endcap.client.errors import RequestError
from endcap.client.options import Compression
from endcap.client.wire.contents import checked_datatype, checked_shape, checked_step, elements
from endcap.client.wire.exchange import HttpAnswer, HttpQuestion
from endcap.client.wire.http_bodies import inflate
from endcap.client.wire.install import import_client
from endcap.client.wire.translate import from_http

_LEVEL = 6  # gRPC's; from there on it takes much longer for little


def infer_question(call: Call, compression: Compression | None) -> HttpQuestion:
    """Returns the request of a call, its tensors in binary behind the JSON."""
    module = import_client("http")
    sequence: dict[str, Any] = {}
    if call.sequence is not None:
        step = checked_step(call.sequence)
        sequence = {
            "sequence_id": step.id,
            "sequence_start": step.start,
            "sequence_end": step.end,
        }
    body, json_bytes = module.InferenceServerClient.generate_request_body(
        [_input(module, tensor) for tensor in call.inputs],
        outputs=[_output(module, output) for output in call.outputs],
        request_id=call.request_id,
        **sequence,
    )
    headers = {"Content-Type": "application/octet-stream"}
    if json_bytes is not None:
        headers["Inference-Header-Content-Length"] = str(json_bytes)
    if compression is not None:
        body = gzip.compress(body, _LEVEL) if compression == "gzip" else zlib.compress(body, _LEVEL)
        headers |= {"Content-Encoding": compression, "Accept-Encoding": compression}
    return HttpQuestion("POST", f"/v2/models/{quote(call.model, safe='')}/infer", body, headers)


def read_infer_answer(answer: HttpAnswer, call: Call, compression: Compression | None) -> Response:
    """Returns the answer that a response holds.

    compression: what was asked for. Raises RequestError for one that is no answer, or whose tensors
    are not what it says of them.
    """
    if answer.status != 200:
        raise from_http(answer, request_id=call.request_id)
    shared = {output.name for output in call.outputs if output.shared is not None}
    tensors: dict[str, Any] = {}
    in_region: dict[str, SharedOutput] = {}
    try:
        result = import_client("http").InferenceServerClient.parse_response_body(
            inflate(answer.body, answer.headers.get("content-encoding"), compression),
            header_length=answer.headers.get("inference-header-content-length"),
        )
        response = result.get_response()
        for output in response.get("outputs", []):
            name = output["name"]
            shape = checked_shape(output["shape"])
            datatype = checked_datatype(output["datatype"])
            if name in shared:
                in_region[name] = SharedOutput(shape, datatype)
            else:
                tensors[name] = result.as_numpy(name)
        request_id = response.get("id", call.request_id)
        if request_id != call.request_id:
            raise ValueError(f"it answers the request {request_id!r}")
    except (*_UNREADABLE, _tritonclient_error()) as error:
        raise RequestError(
            "internal", f"the server's answer cannot be read: {error}", request_id=call.request_id
        ) from error
    asked = dict.fromkeys(o.name for o in call.outputs if o.name not in shared)
    return Response({**asked, **tensors}, in_region, request_id=request_id)


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


def _input(module: Any, tensor: InputTensor) -> Any:
    message = module.InferInput(tensor.name, list(tensor.shape), tensor.datatype)
    if isinstance(tensor.data, SharedSlice):
        message.set_shared_memory(*_place(tensor.data))
        return message
    message.set_data_from_numpy(elements(tensor))
    return message


def _output(module: Any, output: OutputTensor) -> Any:
    message = module.InferRequestedOutput(output.name, class_count=output.class_count)
    if output.shared is not None:
        message.set_shared_memory(*_place(output.shared))
    return message


def _place(shared: SharedSlice) -> tuple[str, int, int]:
    return shared.region, shared.byte_size, shared.offset
