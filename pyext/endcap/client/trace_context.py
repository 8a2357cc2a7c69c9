"""Trace context of requests: the caller's OpenTelemetry span, in the headers of W3C Trace Context.

Its API, the package opentelemetry-api, is called only if the program has imported it: there is no
span otherwise. A server that traces places the spans of a request below that span, see "Traces" in
docs/monitoring.md.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection

_API = "opentelemetry.trace"


def trace_headers(given: Collection[str] = ()) -> dict[str, str]:
    """Return the headers of the current span; none where there is no span.

    Args:
        given: Names of headers that the caller sets himself, in small letters: they are left out.
    """
    if _API not in sys.modules:
        return {}
    headers: dict[str, str] = {}
    importlib.import_module("opentelemetry.propagate").inject(headers)
    return {name: value for name, value in headers.items() if name.lower() not in given}
