"""The error of everything around DALI."""

from __future__ import annotations

from endcap.errors import EndcapError


class DaliError(EndcapError, RuntimeError):
    """The DALI operators cannot be built or loaded.

    The message says what was found and what to do next.
    """
