"""tritonclient, where it is installed."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap.client.address import Protocol
from endcap.client.errors import ClientError


def import_client(protocol: Protocol) -> ModuleType:
    """Returns `tritonclient.grpc` or `tritonclient.http`; ClientError where it is missing."""
    try:
        return importlib.import_module(f"tritonclient.{protocol}")
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ClientError(
            f"the {protocol} client of Triton is not installed ({error}); "
            "run `pip install 'endcap[client]'`"
        ) from error
