"""Requests to the server, in the clients' own terms."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

Arrays = dict[str, npt.NDArray[Any]]

TRITON_TYPES = {
    "bool": "BOOL",
    "float64": "FP64",
    "float32": "FP32",
    "float16": "FP16",
    "int64": "INT64",
    "int32": "INT32",
    "int16": "INT16",
    "int8": "INT8",
    "uint64": "UINT64",
    "uint32": "UINT32",
    "uint16": "UINT16",
    "uint8": "UINT8",
    "object": "BYTES",
}


def strings(files: Sequence[bytes], *, batched: bool = True) -> npt.NDArray[np.object_]:
    """The files as a BYTES tensor [N, 1], or [1] for a model without batches."""
    array = np.empty((len(files), 1), np.object_)
    array[:, 0] = files
    return array if batched else array.reshape(-1)


def grpc_inputs(tensors: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    return make_inputs(grpc_client, tensors)


def make_inputs(client: Any, tensors: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    inputs = []
    for name, array in tensors.items():
        tensor = client.InferInput(name, list(array.shape), TRITON_TYPES[str(array.dtype)])
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    return inputs


def to_arrays(result: Any) -> Arrays:
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def infer(
    client: grpc_client.InferenceServerClient,
    model: str,
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    outputs: Sequence[str] | None = None,
    **options: Any,
) -> Arrays:
    """One gRPC request; all outputs unless some are named."""
    wanted = None if outputs is None else [grpc_client.InferRequestedOutput(o) for o in outputs]
    return to_arrays(client.infer(model, grpc_inputs(tensors), outputs=wanted, **options))


def infer_http(
    client: http_client.InferenceServerClient,
    model: str,
    tensors: Mapping[str, npt.NDArray[Any]],
    **options: Any,
) -> Arrays:
    """One HTTP request with binary tensors both ways."""
    result = client.infer(model, make_inputs(http_client, tensors), **options)
    return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}


def all_in_flight(
    client: grpc_client.InferenceServerClient,
    model: str,
    requests: Sequence[Mapping[str, npt.NDArray[Any]]],
) -> list[object]:
    """Sends all requests before the first response can come; a response is arrays or an error."""
    responses: queue.Queue[tuple[int, object]] = queue.Queue()
    for i, tensors in enumerate(requests):
        client.async_infer(
            model,
            grpc_inputs(tensors),
            callback=lambda result, error, i=i: responses.put((i, error or to_arrays(result))),
            request_id=f"flight-{i}",
        )
    found = dict(responses.get(timeout=60) for _ in requests)
    return [found[i] for i in range(len(requests))]
