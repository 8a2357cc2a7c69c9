"""Makes a network work in half precision, by ONNX Runtime's own converter."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from endcap.repository.errors import RepositoryError, import_onnx


def write_half(path: Path, target: Path) -> Path:
    """Writes a float16 network, inputs and outputs included, into the folder `target`.

    Raises RepositoryError when the network cannot be converted.
    """
    onnx: Any = import_onnx()
    try:
        float16: Any = importlib.import_module("onnxruntime.transformers.float16")
    except ImportError as error:
        raise RepositoryError(
            f"--fp16 takes onnxruntime's converter, which cannot be imported ({error}); run "
            "`pip install 'endcap[init]'`"
        ) from error
    try:
        half = float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=False)
    except Exception as error:  # of onnx and of the converter, without a common type
        raise RepositoryError(
            f"{path} cannot be converted to half precision ({' '.join(str(error).split())}); leave "
            "--fp16 out, or give a network that was exported in half precision"
        ) from error
    written = target / path.name
    onnx.save(half, str(written))
    return written
