"""Connections that a fork leaves with the parent."""

from __future__ import annotations

import os

from endcap.client.errors import ClientError


def check_process(process: int) -> None:
    """Raises ClientError where the connection was opened by another process than this one."""
    if process != os.getpid():
        raise ClientError(
            f"this connection was made by process {process}, before a fork, which it does not "
            "survive; make a connection in each process"
        )
