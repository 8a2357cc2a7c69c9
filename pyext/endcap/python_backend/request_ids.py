"""The ids that clients give their requests: any bytes, and not always text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def request_label(request: Any) -> str:
    """Return such as ``request 'order-4711', correlation id 77``; what is no UTF-8 as ``\\xff``."""
    request_id, correlation_id = _read(request.request_id), _read(request.correlation_id)
    label = f"request '{_as_text(request_id)}'" if request_id else "request without id"
    if not correlation_id:
        return label
    if isinstance(correlation_id, int):
        return f"{label}, correlation id {correlation_id}"
    return f"{label}, correlation id '{_as_text(correlation_id)}'"


def ids_for_calls(request: Any) -> dict[str, str | int]:
    """Return the ids by their names in an InferenceRequest, without those that are no UTF-8.

    A Python model that is called with such an id could not read it.
    """
    ids = {
        "request_id": _read(request.request_id),
        "correlation_id": _read(request.correlation_id),
    }
    return {name: value for name, value in ids.items() if not isinstance(value, bytes)}


def _read(method: Callable[[], str | int]) -> str | int | bytes:
    """Return an id; its bytes where they are no UTF-8, at which the server's method raises."""
    try:
        return method()
    except UnicodeDecodeError as error:
        return error.object


def _as_text(value: str | int | bytes) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
