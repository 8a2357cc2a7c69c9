"""Requests over HTTP, the same way for Triton and for the service: one connection pool, aiohttp."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
from tritonclient import http as triton

_TYPES = {np.dtype(np.float32): "FP32", np.dtype(np.object_): "BYTES"}

# aiohttp asks for gzip of itself, and Triton then compresses every tensor that it answers.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


class CallError(Exception):
    """A service answered with an error; the message is its own."""


class Http:
    """A service, and the connections to it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, Any]:
        """The answer's body and headers. Raises CallError where its status is not 200."""
        async with self._session.post(self._url + path, data=body, headers=headers) as answer:
            content = await answer.read()
            if answer.status != 200:
                raise CallError(f"{answer.status}: {content.decode(errors='replace')[:300]}")
            return content, answer.headers

    async def infer(self, model: str, request: tuple[bytes, int]) -> Any:
        """Send what `request_body` made; the result as tritonclient has it."""
        body, json_bytes = request
        headers = {"Inference-Header-Content-Length": str(json_bytes)}
        content, told = await self.post(f"/v2/models/{model}/infer", body, headers)
        length = int(told["Inference-Header-Content-Length"])
        return triton.InferenceServerClient.parse_response_body(content, header_length=length)


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Http]:
    """As many connections as there are requests at once."""
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=_UNCOMPRESSED
    ) as session:
        yield Http(url, session)


def request_body(inputs: dict[str, Any], outputs: Sequence[str]) -> tuple[bytes, int]:
    """A request with binary tensors, and how many of its bytes are JSON.

    Args:
        inputs: Name to array: float32, or object for BYTES.
    """
    tensors = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), _TYPES[array.dtype])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    wanted = [triton.InferRequestedOutput(name) for name in outputs]
    body, length = triton.InferenceServerClient.generate_request_body(tensors, outputs=wanted)
    return body, length


def encoded(image: bytes, *shape: int) -> Any:
    """A file as the input `encoded` takes it."""
    array = np.empty(shape, np.object_)
    array.flat[0] = image
    return array
