"""The error of the page's server."""

from __future__ import annotations

from endcap.errors import EndcapError


class PageError(EndcapError, RuntimeError):
    """The page cannot be served; the message says what to do."""
