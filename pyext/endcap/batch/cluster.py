"""The Ray cluster of a run: the caller's, one that runs, or one of this machine for the run."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from typing import Any

from endcap.batch.errors import BatchError, import_package

# Shards are lists of paths, and what actors return is counts: neither needs much.
_OBJECT_STORE_BYTES = 128 << 20
_TIMED_OUT = "timed out during startup"
_CONNECT_S = 10.0
_LOGGERS = ("ray", "ray.data")


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield the module ray, connected to a cluster, with its own displays of progress off.

    A cluster that the caller is connected to is used unchanged. One that is started here ends with
    the block.

    Args:
        address: HOST:PORT of a cluster; None starts one on this machine.

    Raises:
        BatchError: Ray is missing, or there is no cluster.
    """
    if address is None:
        _ask_for_a_token()
    ray, data = import_package("ray"), import_package("ray.data")
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            _start(ray, address)
            stack.callback(ray.shutdown)
            for name in _LOGGERS:
                logging.getLogger(name).setLevel(logging.ERROR)
        context = data.DataContext.get_current()
        for name in ("enable_progress_bars", "print_on_execution_start"):
            stack.callback(setattr, context, name, getattr(context, name))
            setattr(context, name, False)
        yield ray


def _ask_for_a_token() -> None:
    """Let clusters that this process starts take nobody without a token, unless Ray is loaded.

    Ray listens on all interfaces of the machine, and whoever connects may run programs. It reads
    these variables when it is loaded, and then again in each process that it starts.
    """
    if "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _start(ray: Any, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is not None:
            _check_reachable(address)
            ray.init(address=address, **quiet)
        else:
            _start_local(ray, quiet)
    except Exception as error:  # of nodes that do not start Ray raises no narrower type
        if address is None and isinstance(error, OSError):
            raise BatchError(
                f"Ray cannot start on this machine: {error}; set TMPDIR to a folder that it can "
                "write to, or give a cluster with --address"
            ) from error
        where = "on this machine" if address is None else f"at {address}"
        raise BatchError(
            f"no Ray cluster {where}: {' '.join(str(error).split())}; its address is given as "
            "HOST:PORT, or auto on one of its machines"
        ) from error


def _start_local(ray: Any, quiet: dict[str, Any]) -> None:
    """Start a cluster; again where a busy machine did not do it within Ray's 30 seconds."""
    for is_last in (False, False, True):
        try:
            ray.init(
                address="local",  # never a cluster of somebody else on this machine
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                **quiet,
            )
        except Exception as error:
            ray.shutdown()
            if is_last or _TIMED_OUT not in str(error):
                raise
        else:
            return


def _check_reachable(address: str) -> None:
    """Raise OSError where nothing listens at HOST:PORT; Ray would look for it for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
