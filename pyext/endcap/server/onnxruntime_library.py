"""ONNX Runtime's shared library for models of the backend `endcap_onnx`."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from endcap.server.locate import ServerInstallation
from endcap.triton.model_folder import ModelFolder

BACKEND = "endcap_onnx"
# Names a library; the backend reads it itself.
VARIABLE = "ENDCAP_ONNXRUNTIME"

_LIBRARY = re.compile(r"libonnxruntime\.so((?:\.\d+)*)")


def onnxruntime_options(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> list[str]:
    """Return the option that tells the server's backend where the library is.

    There is none where no model needs it, ENDCAP_ONNXRUNTIME is set, or no library is found: the
    backend then says what to do about it, if its models name none either.
    """
    if os.environ.get(VARIABLE) or not any(model.backend == BACKEND for model in models):
        return []
    library = find_onnxruntime(installation)
    return [] if library is None else [f"--backend-config={BACKEND},onnxruntime_library={library}"]


def find_onnxruntime(installation: ServerInstallation) -> Path | None:
    """Return the library of the installed Python package, else of the server's own backend."""
    for folder in _folders(installation):
        found = [
            (match, path)
            for path in folder.glob("libonnxruntime.so*")
            if (match := _LIBRARY.fullmatch(path.name))
        ]
        if found:
            return max(found, key=lambda each: _version(each[0][1]))[1]
    return None


def _folders(installation: ServerInstallation) -> Iterator[Path]:
    package = importlib.util.find_spec("onnxruntime")
    for folder in (package and package.submodule_search_locations) or ():
        yield Path(folder).absolute() / "capi"
    if installation.backends_dir is not None:
        yield installation.backends_dir / "onnxruntime"


def _version(suffix: str) -> tuple[int, ...]:
    return tuple(int(part) for part in suffix.split(".") if part)
