"""tritonclient's client for HTTP: its options, arguments, responses and errors.

It is the one for asyncio, with threads too: they send in one event loop of this process, in which a
deadline or `close` ends a request at any point.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from endcap.client.calls import Call, Response, import_client, infer_arguments, read_response
from endcap.client.errors import RequestError, from_http, from_os_error
from endcap.client.options import Address, ConnectionOptions, Tls, ssl_context


class HttpTransport:
    """A connection to one server for each concurrent request, in one event loop."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._tritonclient = import_client("http")
        self._class = import_client("http.aio").InferenceServerClient
        self._http_error = import_client("utils").InferenceServerException
        self._aiohttp = importlib.import_module("aiohttp")
        self.errors = (self._http_error, self._aiohttp.ClientError, OSError)
        self._authority = address.authority
        self._compression = options.compression
        self._tls: dict[str, Any] = {}
        if address.secure:
            self._tls = {"ssl": True, "ssl_context": ssl_context(options.tls or Tls())}

    def open(self) -> Any:
        """Return a client of tritonclient, in an event loop."""
        return self._class(self._authority, conn_limit=0, conn_timeout=None, **self._tls)

    async def close(self, client: Any, in_flight: set[Any]) -> None:
        """Close a client, and cancel what is in flight."""
        for task in in_flight:
            task.cancel()
        await client.close()

    def arguments(
        self, method: str, headers: Mapping[str, str], timeout_s: float
    ) -> dict[str, Any]:
        """Return the arguments that any method of the client takes, which watches no deadline."""
        return {"headers": {"Accept-Encoding": "identity", **headers}}

    def infer_arguments(self, call: Call) -> dict[str, Any]:
        """Return the arguments of the client's `infer`."""
        arguments = infer_arguments(self._tritonclient, call)
        arguments["request_compression_algorithm"] = self._compression
        arguments["response_compression_algorithm"] = self._compression
        return arguments

    def read_inference(self, result: Any, call: Call) -> Response:
        """Return what the client's `infer` returned, checked; it may raise errors of UNREADABLE."""
        header = result.get_response()
        outputs = [(o["name"], o["shape"], o["datatype"]) for o in header.get("outputs", [])]
        request_id = header.get("id", call.request_id)
        if request_id != call.request_id:
            raise ValueError(f"it is for the request {request_id!r}")
        return read_response(call, outputs, result.as_numpy, request_id)

    def read_config(self, response: Any) -> dict[str, Any]:
        """Return the configuration of a model."""
        return dict(response)

    def read_regions(self, response: Any) -> dict[str, str]:
        """Return the keys of the registered regions by their names."""
        return {str(region["name"]): region.get("key", "") for region in response}

    def error(self, error: Exception) -> Exception:
        """Return the error to raise for one of `errors`."""
        aiohttp = self._aiohttp
        if isinstance(error, self._http_error):
            return from_http(error)
        if isinstance(error, aiohttp.ClientConnectorError):
            return from_os_error(error.os_error)
        # An error that is not a text is the head of a response, of which a part has arrived.
        begun = isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(
            error.message, str
        )
        if begun or isinstance(error, aiohttp.ClientPayloadError):
            return RequestError("unavailable", "the connection broke in the middle of the response")
        if isinstance(error, aiohttp.ServerDisconnectedError) or (
            isinstance(error, aiohttp.ClientOSError) and error.errno is None
        ):
            message = "the connection broke before the response"
            return RequestError("unavailable", message, transient=True)
        if isinstance(error, OSError):
            return from_os_error(error)
        return RequestError(
            "unavailable",
            "the server is not a Triton server's http service; the usual ports are 8000 for HTTP "
            "and 8001 for gRPC",
        )

    def interrupted(self) -> RequestError:
        """Return the error of a request that was cancelled, but not by its caller."""
        return RequestError("cancelled", "the request was cancelled")
