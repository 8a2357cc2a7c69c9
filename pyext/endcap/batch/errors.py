"""The error of work on data sets."""

from __future__ import annotations

from endcap.errors import EndcapError


class BatchError(EndcapError, RuntimeError):
    """A data set cannot be read, processed or written; the message says what to do.

    An image that is bad is none: its row has a status and a message.
    """
