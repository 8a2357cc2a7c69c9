"""Errors of writing and checking repositories, and the import of `onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endcap._pip_commands import import_extra
from endcap.errors import EndcapError

# How ONNX Runtime, C++ and Python say that an allocation failed.
OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation", "MemoryError")


class RepositoryError(EndcapError, RuntimeError):
    """A network or a repository that cannot be used; the message says what to do next."""


class MissingOptionError(RepositoryError):
    """Information that only the user has: `reasons` says what to give, each in one message."""

    def __init__(self, path: Path, *reasons: str) -> None:
        self.reasons = reasons
        message = "; ".join(reasons)
        if len(reasons) > 1:
            numbered = "; ".join(f"({number}) {each}" for number, each in enumerate(reasons, 1))
            short = numbered.replace(str(path), path.name)
            message = f"{path} needs {len(reasons)} options: {short}"
        super().__init__(message)


class UnknownOperatorError(RepositoryError):
    """ONNX Runtime lacks an operator of the network, which may be TensorRT's own."""


def import_onnx(module: str = "onnx") -> Any:
    """Return a module of the package `onnx`; RepositoryError without it."""
    return import_extra(module, "init", "reading a network", RepositoryError)
