"""Which NumPy the stub of a server goes with, as its binary tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from endcap.environment.stub.installing import find_real_stub
from endcap.server.locate import locate_if_there

_BELOW_2 = "<2"


@dataclass(frozen=True)
class NumpyLimit:
    """What NumPy must be, and why; `specifier` is "" where any will do."""

    specifier: str
    reason: str


def find_numpy_limit(
    python: str, *, real: Path | None = None, tritonserver: Path | None = None
) -> NumpyLimit:
    """Return what the stub for a Python (such as "3.11") takes.

    Args:
        real: The release's own stub; else the server's, which is found as `endcap serve` finds it.
            Without a server, NumPy 2 is ruled out: older stubs answer empty tensors with it. Raises
            ServerError where `tritonserver` is none, and StubError where there is no stub for this
            Python.
    """
    server = locate_if_there(tritonserver) if real is None else None
    if real is None and server is None:
        return NumpyLimit(_BELOW_2, "no server was found whose stub would tell; name one by --real")
    stub, description = find_real_stub(server, python, real)
    if description.takes_numpy_2:
        return NumpyLimit("", f"the stub {stub} goes with any NumPy")
    if description.takes_numpy_2 is None:
        return NumpyLimit(_BELOW_2, f"the stub {stub} does not tell what it goes with")
    return NumpyLimit(_BELOW_2, f"with a later one the stub {stub} answers empty tensors")
