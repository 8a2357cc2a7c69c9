"""Execution environments of Python-backend models, and the stub that checks them.

py-rattler, conda-pack and packaging are imported where they are used: the command line starts
without them.
"""

from __future__ import annotations

from endcap.errors import EndcapError


class ExecutionEnvironmentError(EndcapError, RuntimeError):
    """An environment that cannot be built, or does not work; the message says what to do next."""


class StubError(EndcapError, RuntimeError):
    """A stub that cannot be installed; the message says what to do next."""
