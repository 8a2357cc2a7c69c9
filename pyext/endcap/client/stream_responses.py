"""What a stream's responses say; for both kinds of streams."""

from __future__ import annotations

from typing import Any

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.wire.grpc_tensors import infer_request, read_infer_response
from endcap.client.wire.translate import from_stream
from endcap.errors import InvalidArgumentError


class StreamResponses:
    """Makes requests of calls, and answers of responses, of one stream."""

    def __init__(self) -> None:
        self._shared: set[str] = set()
        self._model: str | None = None

    def request(self, call: Call) -> Any:
        """Returns the message to send; InvalidArgumentError for another model than the first's."""
        if self._model not in (None, call.model):
            raise InvalidArgumentError(
                f"this stream is for the model '{self._model}': open another one for "
                f"'{call.model}'; a server may abort where models share a stream"
            )
        request = infer_request(call, decoupled=True)
        self._model = call.model
        self._shared |= {output.name for output in call.outputs if output.shared is not None}
        return request

    def read(self, response: Any) -> Response:
        """Returns the answer of a ModelStreamInferResponse; RequestError where it is an error."""
        if response.error_message:
            raise from_stream(response.error_message, request_id=response.infer_response.id)
        return read_infer_response(response.infer_response, (), self._shared)


def ended() -> RequestError:
    """Returns the error of a stream that the server has ended without one."""
    return RequestError("unavailable", "the server has ended the stream; open another one")
