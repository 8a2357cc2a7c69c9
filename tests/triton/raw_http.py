"""Inference over HTTP without a client library, for requests that one would not send."""

from __future__ import annotations

import http.client
import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tritonclient.http as http_client

from tests.triton.calls import Arrays


def bytes_tensor(files: Sequence[bytes]) -> bytes:
    """The elements of a BYTES tensor, each behind its length in 4 bytes."""
    return b"".join(struct.pack("<I", len(file)) + file for file in files)


@dataclass(frozen=True)
class RawTensor:
    """An input as it goes over the wire."""

    name: str
    data_type: str
    shape: Sequence[int]
    data: bytes

    def description(self) -> dict[str, object]:
        return {
            "name": self.name,
            "datatype": self.data_type,
            "shape": list(self.shape),
            "parameters": {"binary_data_size": len(self.data)},
        }


def post(
    authority: str,
    model: str,
    tensors: Sequence[RawTensor],
    *,
    request_id: str = "",
    chunk_bytes: int | None = None,
) -> tuple[int, bytes, int]:
    """Sends the tensors right behind the JSON, one after the other.

    request_id: may hold bytes that are no UTF-8, as `os.fsdecode` gives them.
    chunk_bytes: sends the body in chunks of this size, each of which becomes a buffer of its own in
        the server.
    Returns the HTTP status, the body, and how many bytes of it are JSON.
    """
    request_json = {
        "id": request_id,
        "inputs": [tensor.description() for tensor in tensors],
        "parameters": {"binary_data_output": True},
    }
    header = os.fsencode(json.dumps(request_json, ensure_ascii=False))
    body = header + b"".join(tensor.data for tensor in tensors)
    connection = http.client.HTTPConnection(authority, timeout=30)
    try:
        connection.request(
            "POST",
            f"/v2/models/{model}/infer",
            body=body if chunk_bytes is None else _chunks(body, chunk_bytes),
            headers={"Inference-Header-Content-Length": str(len(header))},
            encode_chunked=chunk_bytes is not None,
        )
        response = connection.getresponse()
        json_bytes = int(response.headers.get("Inference-Header-Content-Length", 0))
        return response.status, response.read(), json_bytes
    finally:
        connection.close()


def _chunks(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def to_arrays(body: bytes, json_bytes: int) -> Arrays:
    result = http_client.InferenceServerClient.parse_response_body(body, header_length=json_bytes)
    return {o["name"]: result.as_numpy(o["name"]) for o in result.get_response()["outputs"]}
