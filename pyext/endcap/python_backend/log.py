"""Lines in the server's log, with the model and the request that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.failures import CANCELLED_TEXT
from endcap.python_backend.request_ids import request_label


class ModelLog:
    """Writes log lines of one model instance.

    Args:
        args: what the server hands to ``initialize``.
    """

    def __init__(self, args: Mapping[str, str]) -> None:
        self._label = f"model '{args['model_name']}' version {args['model_version']}"

    def parameters(self, values: Iterable[tuple[str, str]]) -> None:
        """Write what every parameter has become."""
        told = " ".join(f"{name}={value}" for name, value in values)
        pb_utils.Logger.log_info(f"{self._label} takes {told}")

    def failed(self, request: Any, text: str) -> None:
        """Write why a request has failed, as a warning."""
        pb_utils.Logger.log_warn(f"{self._label}, {request_label(request)}: {text}")

    def cancelled(self, request: Any) -> None:
        """Write that a request's client has gone."""
        pb_utils.Logger.log_info(f"{self._label}, {request_label(request)}: {CANCELLED_TEXT}")
