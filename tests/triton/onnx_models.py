"""Small networks in the ONNX format, for models of endcap_onnx."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.triton.model_folders import write_model

BACKEND = "endcap_onnx"
# Known to every ONNX Runtime that the backend takes.
OPSET, IR_VERSION = 17, 8
DTYPES = (
    *("bool", "float16", "float32", "float64", "object"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
SAMPLE = Path(__file__).resolve().parents[2] / "model_repository" / "detector" / "1" / "model.onnx"

# For tests of the server's memory.
KEEPS_FREED_MEMORY = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps freed memory"
)

Dims = Sequence["int | str"]


def find_library() -> Path:
    """Returns the shared library of the installed ONNX Runtime."""
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.1.*")
    return library


def value(name: str, dims: Dims, dtype: str = "float32") -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, list(dims))


def constant(name: str, array: npt.NDArray[Any]) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def adding(number: float, dims: Dims = ("batch", 4), dtype: str = "float32") -> onnx.ModelProto:
    """y = x + number."""
    return network(
        [helper.make_node("Add", ["x", "number"], ["y"])],
        [value("x", dims, dtype)],
        [value("y", dims, dtype)],
        [constant("number", np.array(number, dtype))],
    )


def identity(dtypes: Sequence[str], dims: Dims) -> onnx.ModelProto:
    """Each input, `float32` and so on, is returned as `float32_out`."""
    return network(
        [helper.make_node("Identity", [dtype], [f"{dtype}_out"]) for dtype in dtypes],
        [value(dtype, dims, dtype) for dtype in dtypes],
        [value(f"{dtype}_out", dims, dtype) for dtype in dtypes],
    )


def picking(rows: Dims = ("batch", 1)) -> onnx.ModelProto:
    """picked = [10, 20, 30, 40][index]; another index fails the run."""
    return network(
        [helper.make_node("Gather", ["table", "index"], ["picked"])],
        [value("index", rows, "int64")],
        [value("picked", rows)],
        [constant("table", np.float32([10, 20, 30, 40]))],
    )


def multiplying(size: int, times: int, dims: Dims | None = None) -> onnx.ModelProto:
    """Takes a time that `size` and `times` decide: y = x W W ... W, with a W of size x size."""
    weights = np.random.default_rng(0).standard_normal((size, size), np.float32) / size**0.5
    names = ["x", *(f"x{i}" for i in range(1, times)), "y"]
    given = dims or ("batch", "rows", size)
    return network(
        [
            helper.make_node("MatMul", [before, "weights"], [after])
            for before, after in itertools.pairwise(names)
        ],
        [value("x", given)],
        [value("y", given)],
        [constant("weights", weights)],
    )


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
