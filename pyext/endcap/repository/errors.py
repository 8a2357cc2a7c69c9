"""Errors of writing and checking repositories, and the import of `onnx`."""

from __future__ import annotations

import importlib
from types import ModuleType

from endcap._system.pip_commands import install_command
from endcap.errors import EndcapError


class RepositoryError(EndcapError, RuntimeError):
    """A network or a repository that cannot be used; the message says what to do next."""


class UnknownOperatorError(RepositoryError):
    """ONNX Runtime lacks an operator of the network, which may be TensorRT's own."""


def import_onnx(module: str = "onnx") -> ModuleType:
    """Return a module of the package `onnx`.

    Raises:
        RepositoryError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RepositoryError(
            f"reading a network takes the package onnx, which cannot be imported ({error}); "
            f"run `{install_command('init')}`"
        ) from error
