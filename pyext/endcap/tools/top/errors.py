"""What can go wrong when a server is asked for its metrics."""

from __future__ import annotations

from endcap.errors import EndcapError


class MetricsError(EndcapError, ConnectionError):
    """No metrics can be had at an address now; the message says what to do."""
