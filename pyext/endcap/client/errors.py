"""What can go wrong between a client and a server."""

from __future__ import annotations

from endcap.errors import EndcapError


class ClientError(EndcapError, ConnectionError):
    """The server cannot be reached, or does not serve the model; the message says what to do."""


class RequestError(EndcapError, RuntimeError):
    """One request failed; the others are not concerned.

    Args:
        status_name: The failure class, see `endcap.results.image_result`.
        request_id: Of which request; "" where neither client nor server tells.
        region_lost: Whether the server says that a shared-memory region is not registered with it.
        transient: Whether it is unavailable for now, so that the same request may succeed later.
        refused: Whether the server has surely not taken it, or has itself said that it will not run
            it.
    """

    def __init__(
        self,
        status_name: str,
        message: str,
        *,
        request_id: str = "",
        region_lost: bool = False,
        transient: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.status_name = status_name
        self.request_id = request_id
        self.region_lost = region_lost
        self.transient = transient
        self.refused = refused

    def __reduce__(self) -> tuple[type[RequestError], tuple[str, str], dict[str, object]]:
        return type(self), (self.status_name, str(self)), vars(self)


def as_request_error(error: EndcapError) -> RequestError:
    """Return an error as that of one request, without its traceback and what that keeps alive.

    Nor has it a cause: the cause's traceback holds the same frames, and so the images.
    """
    if not isinstance(error, RequestError):
        error = RequestError(error.status.label, str(error))
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
