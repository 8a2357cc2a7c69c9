"""The error of everything around the stub in a model's folder."""

from __future__ import annotations

from endcap.errors import EndcapError


class StubError(EndcapError, RuntimeError):
    """A stub cannot be installed or looked at.

    The message says what was found and what to do next.
    """
