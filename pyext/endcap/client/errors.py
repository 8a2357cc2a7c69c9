"""Errors of clients, and the conversion of errors of gRPC, HTTP and the system to them."""

from __future__ import annotations

import errno
import http.client
import importlib
import re
import struct
import sys
import zlib
from typing import Any

from endcap.errors import EndcapError, InvalidArgumentError, Status


class ClientError(EndcapError, ConnectionError):
    """The server cannot be reached, or does not serve the model; the message says what to do."""


class RequestError(EndcapError, RuntimeError):
    """A failed request; other requests are not affected.

    Args:
        status_name: The failure class, see `endcap.detections`.
        region_lost: Whether a shared-memory region is not registered with the server.
        transient: Whether the server is unavailable for now; the same request may succeed later.
        retry_after_s: How long the server asks to wait before the request is repeated; None if
            it does not.
    """

    def __init__(
        self,
        status_name: str,
        message: str,
        *,
        region_lost: bool = False,
        transient: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_name = status_name
        self.region_lost = region_lost
        self.transient = transient
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[RequestError], tuple[str, str], dict[str, object]]:
        return type(self), (self.status_name, str(self)), vars(self)


def as_request_error(error: EndcapError) -> RequestError:
    """Return an error as RequestError, without traceback and cause, which keep images alive."""
    if not isinstance(error, RequestError):
        error = RequestError(error.status.label, str(error))
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


_MAX_TEXT = 200
# The exceptions that reading a malformed response raises.
UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,  # of numbers that their type does not hold
    LookupError,
    AttributeError,
    RecursionError,  # of JSON
    struct.error,
    zlib.error,
)


def unreadable_error(error: Exception) -> RequestError:
    """Return the error of a malformed response."""
    text = f"the server's response cannot be read: {str(error)[:_MAX_TEXT]}"
    return RequestError("internal", text)


_GRPC_STATUS = {
    "INVALID_ARGUMENT": "invalid_argument",
    "UNAVAILABLE": "unavailable",
    "DEADLINE_EXCEEDED": "timeout",
    "CANCELLED": "cancelled",
    "NOT_FOUND": "unavailable",
    "UNIMPLEMENTED": "unsupported",
}
_HTTP_STATUS = {
    400: "invalid_argument",
    404: "unavailable",
    429: "unavailable",
    499: "cancelled",
    501: "unsupported",
    503: "unavailable",
}
# endcap's backends begin a message with the failure class, or `unavailable`; ensembles and cascades
# put the names of themselves and of the model that failed before it.
_CLASS_IN_MESSAGE = re.compile(
    r"(?:in ensemble '[^']*', |model '[^']*': )*("
    + "|".join([*(status.label for status in Status), "unavailable"])
    + r"): "
)
_REGION_LOST = re.compile(r"Unable to find (?:cuda |system )?shared memory region")
# Triton's messages while it stops or restarts. Their statuses have other meanings, too; in a stream
# there is no status.
_STOPPING = re.compile(
    "[Ss]erver is stopping|stopped accepting new inference requests|has no available versions|"
    "is not at ready state"
)
# The end of the message of a preprocess model that has too much work for its max_queue_cost.
_RETRY_AFTER = re.compile(r"; retry after (\d{1,9}) ms$")
# The ends of its messages for a request whose response would come too late; another attempt would
# have less time.
_TOO_LATE = re.compile(r"the request's timeout (?:is \d+ ms|ended in the queue)$")
# Triton's messages for an API that --grpc-restricted-protocol or --http-restricted-api has closed;
# their gRPC status is UNAVAILABLE.
_RESTRICTED = re.compile(r"This (protocol|API) is restricted")
_TRANSIENT_ERRNOS = (errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE)
# geventhttpclient's messages for the end of a connection, among those for other protocols.
_BROKEN = re.compile("closed|EOF|Incomplete")
# The beginnings of tritonclient's messages for a body that is empty or not Triton's JSON.
_UNREADABLE_ERROR = ("an exception occurred in the client", "client received an empty response")


def from_grpc(status: str, message: str) -> RequestError:
    """Return the error for a gRPC status; `status` is its name, such as "UNAVAILABLE"."""
    restricted = _RESTRICTED.match(message) is not None
    name = "unsupported" if restricted else _GRPC_STATUS.get(status, "internal")
    if status == message == "CANCELLED":  # gRPC's words for a call that a stopping server dropped
        status = "UNAVAILABLE"
        name = "unavailable"
        message = "the server ended the call without a response"
    transient = status == "UNAVAILABLE" and not restricted
    return from_message(message, name, transient=transient)


def from_http(error: Any) -> RequestError:
    """Return the error for an HTTP response with a status other than 200.

    Args:
        error: tritonclient's InferenceServerException.
    """
    status, message = int(error.status() or 0), str(error.message())
    # As of a proxy, which does not send Triton's JSON.
    if message.startswith(_UNREADABLE_ERROR):
        text = " ".join(str(error.debug_details() or "").split())
        message = f"HTTP status {status}: {text[:_MAX_TEXT]}".rstrip(": ")
    name = _HTTP_STATUS.get(status, "internal")
    if name == "cancelled" and "imeout" in message:
        name = "timeout"
    if status == 403 and _RESTRICTED.match(message):
        name = "unsupported"
    return from_message(message, name, transient=status == 503)


def convert_error(error: Any) -> Exception:
    """Return the error to raise for one of tritonclient, or of a library that it uses.

    It is a RequestError; a TimeoutError; or, if tritonclient rejects an argument,
    InvalidArgumentError. Other errors are returned unmodified.
    """
    if isinstance(error, (TimeoutError, RequestError)):
        return error
    if isinstance(error, importlib.import_module("tritonclient.utils").InferenceServerException):
        status = str(error.status() or "").removeprefix("StatusCode.")
        if not status:
            return InvalidArgumentError(str(error))
        if status.isdecimal():
            return from_http(error)
        if status == "DEADLINE_EXCEEDED":
            return TimeoutError()
        return from_grpc(status, str(error.message() or status))
    aiohttp: Any = sys.modules.get("aiohttp")
    if aiohttp and isinstance(error, aiohttp.ClientConnectorError):
        return from_os_error(error.os_error)
    if aiohttp and isinstance(error, aiohttp.ClientError):
        names = ("ServerDisconnectedError", "ClientPayloadError", "ClientOSError")
        return _http_error(is_broken=isinstance(error, tuple(getattr(aiohttp, n) for n in names)))
    if isinstance(error, http.client.HTTPException):  # geventhttpclient's
        return _http_error(is_broken=_BROKEN.search(str(error)) is not None)
    if isinstance(error, OSError):
        return from_os_error(error)
    return unreadable_error(error) if isinstance(error, UNREADABLE) else error


def _http_error(*, is_broken: bool) -> RequestError:
    if is_broken:
        message = "the connection broke before the response"
        return RequestError("unavailable", message, transient=True)
    return RequestError(
        "unavailable",
        "the server is not a Triton server's http service; the usual ports are 8000 for HTTP "
        "and 8001 for gRPC",
    )


def from_os_error(error: OSError) -> RequestError:
    """Return the error of a connection that could not be made, or broke."""
    passes = isinstance(error, ConnectionError) or error.errno in _TRANSIENT_ERRNOS
    message = error.strerror or str(error)
    return RequestError("unavailable", message, transient=passes)


def timeout_error(timeout_s: float) -> RequestError:
    """Return the error of a request whose deadline is over."""
    return RequestError("timeout", f"no response within {timeout_s:.3g} s")


def closed_error() -> RequestError:
    """Return the error of a request over a connection that this program has closed."""
    return RequestError("cancelled", "the connection was closed; open another one")


def from_message(message: str, name: str = "internal", *, transient: bool = False) -> RequestError:
    """Return the error for a message of Triton; the failure class that it names replaces `name`."""
    match = _CLASS_IN_MESSAGE.match(message)
    if match:
        name, message = match[1], message[match.end() :]
    elif _STOPPING.search(message):
        name, transient = "unavailable", True
    hint = _RETRY_AFTER.search(message) if name == "unavailable" else None
    transient = transient and not (name == "unavailable" and _TOO_LATE.search(message))
    return RequestError(
        name,
        message,
        region_lost=_REGION_LOST.search(message) is not None,
        transient=transient or hint is not None,
        retry_after_s=None if hint is None else int(hint[1]) / 1e3,
    )
