"""Makes a network work in half precision, by ONNX Runtime's own converter."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from endcap.repository.errors import RepositoryError, import_onnx
from endcap.repository.onnx_file import OnnxFile, read_onnx


def to_half(network: OnnxFile, scratch: Path) -> OnnxFile:
    """Returns the network in float16, inputs and outputs included; its file is in `scratch`.

    Raises RepositoryError when the network cannot be converted.
    """
    onnx: Any = import_onnx()
    path, file = network.path, scratch / network.path.name
    try:
        float16: Any = importlib.import_module("onnxruntime.transformers.float16")
    except ImportError as error:
        raise RepositoryError(
            f"--fp16 takes onnxruntime's converter, which cannot be imported ({error}); run "
            "`pip install 'endcap[init]'`"
        ) from error
    try:
        half = float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=False)
        onnx.save(half, str(file))
    except Exception as error:  # of onnx and of the converter, without a common type
        raise RepositoryError(
            f"{path} cannot be converted to half precision ({' '.join(str(error).split())}); leave "
            "--fp16 out, or give a network that was exported in half precision"
        ) from error
    return replace(read_onnx(file), path=path)
