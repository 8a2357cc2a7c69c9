"""Which NumPy the stub of a server goes with, as its binary tells."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from endcap.server.errors import ServerError
from endcap.server.locate import ServerInstallation, locate_server

STUB = "triton_python_backend_stub"
# Before 2.12, the first that knows NumPy 2, pybind11 imported this module by its whole name.
_OF_AN_OLD_PYBIND11 = b"numpy.core.multiarray"


@dataclass(frozen=True)
class NumpyLimit:
    """What NumPy must be, and why; `specifier` is "" where any will do."""

    specifier: str
    reason: str


def find_numpy_limit(
    python: str, *, real: Path | None = None, tritonserver: Path | None = None
) -> NumpyLimit:
    """Returns what the stub for a Python (such as "3.11") takes.

    real: the release's own stub; else the server's, which is found as `endcap serve` finds it.
    Without a server, NumPy 2 is ruled out: older stubs answer empty tensors with it. Raises
    ServerError where `real` or `tritonserver` is none.
    """
    if real is not None and not real.is_file():
        raise ServerError(f"--real {real} is no file; give a {STUB}")
    stub = real
    if stub is None:
        try:
            stub = stub_of(locate_server(tritonserver), python)
        except ServerError:
            if tritonserver is not None:
                raise
    if stub is None:
        return NumpyLimit("<2", "no stub that would tell was found; name one by --real")
    if supports_numpy_2(stub):
        return NumpyLimit("", f"the stub {stub} goes with any NumPy")
    return NumpyLimit("<2", f"with a later one the stub {stub} answers empty tensors")


def stub_of(server: ServerInstallation, python: str) -> Path | None:
    """Returns a server's stub for a Python, None where it has none.

    A container's stub is for its own Python, which is not told; it is taken for any.
    """
    folders = [server.stubs_dir / python] if server.stubs_dir else []
    folders += [server.backends_dir / "python"] if server.backends_dir else []
    return next((folder / STUB for folder in folders if (folder / STUB).is_file()), None)


def supports_numpy_2(stub: Path) -> bool:
    """Whether a stub gives and takes the arrays of NumPy 2."""
    with stub.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(_OF_AN_OLD_PYBIND11) < 0
