"""The error that everything around starting a server raises."""

from __future__ import annotations

from endcap.errors import EndcapError


class ServerError(EndcapError, RuntimeError):
    """A Triton server was not found, did not start, or ended by itself.

    The message says what was found and what to do next.
    """
