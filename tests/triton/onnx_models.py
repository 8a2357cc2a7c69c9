"""Small networks in the ONNX format, for models of endcap_onnx."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.support.onnx_heads import Shape, declare, network
from tests.triton.model_folders import write_model

BACKEND = "endcap_onnx"
DTYPES = (
    *("bool", "float16", "float32", "float64", "object"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
SAMPLE = Path(__file__).resolve().parents[2] / "model_repository" / "detector" / "1" / "model.onnx"

# For tests of the server's memory.
KEEPS_FREED_MEMORY = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps freed memory"
)


def find_library() -> Path:
    """Returns the shared library of the installed ONNX Runtime."""
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.1.*")
    return library


def adding(number: float, dims: Shape = ("batch", 4), dtype: str = "float32") -> onnx.ModelProto:
    """y = x + number."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    signature = f"({declare('x', dims, element)}) => ({declare('y', dims, element)})"
    return network(signature, "y = Add(x, number)", number=np.array(number, dtype))


def identity(dtypes: Sequence[str], dims: Shape) -> onnx.ModelProto:
    """Each input, `float32` and so on, is returned as `float32_out`."""
    elements = {each: helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in dtypes}
    inputs, outputs = (
        ", ".join(declare(name + end, dims, element) for name, element in elements.items())
        for end in ("", "_out")
    )
    nodes = " ".join(f"{each}_out = Identity({each})" for each in dtypes)
    return network(f"({inputs}) => ({outputs})", nodes)


def picking() -> onnx.ModelProto:
    """picked = [10, 20, 30, 40][index]; another index fails the run."""
    return network(
        "(int64[batch,1] index) => (float[batch,1] picked)",
        "picked = Gather(table, index)",
        table=np.float32([10, 20, 30, 40]),
    )


def multiplying(size: int, times: int, dims: Shape | None = None) -> onnx.ModelProto:
    """Takes a time that `size` and `times` decide: y = x W W ... W, with a W of size x size."""
    weights = np.random.default_rng(0).standard_normal((size, size), np.float32) / size**0.5
    names = ["x", *(f"x{i}" for i in range(1, times)), "y"]
    given = dims or ("batch", "rows", size)
    nodes = " ".join(f"{b} = MatMul({a}, weights)" for a, b in itertools.pairwise(names))
    return network(f"({declare('x', given)}) => ({declare('y', given)})", nodes, weights=weights)


def write_network(
    repository: Path,
    name: str,
    proto: onnx.ModelProto | bytes,
    *,
    file: str = "1/model.onnx",
    **options: Any,
) -> Path:
    """Writes a model of endcap_onnx; `options` as of write_model. Returns the network's file."""
    if not (repository / name).exists():
        write_model(repository, name, backend=BACKEND, **options)
    path = repository / name / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return path
