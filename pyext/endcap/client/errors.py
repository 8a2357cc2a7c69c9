"""What can go wrong between a client and a server."""

from __future__ import annotations

from endcap.errors import EndcapError


class ClientError(EndcapError, ConnectionError):
    """The server cannot be reached, or does not serve the model; one sentence, with what to do."""


class RequestError(EndcapError, RuntimeError):
    """One request failed; the others are not concerned.

    status_name: the failure class, see `endcap.client.results`.
    """

    def __init__(self, status_name: str, message: str) -> None:
        super().__init__(message)
        self.status_name = status_name
