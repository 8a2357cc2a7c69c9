"""What is filled in where a config.pbtxt leaves tensors out, with the server's own ModelConfig."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from endcap.python_backend.bls import Tensors, complete_config

INPUTS: Tensors = {"encoded": ("TYPE_STRING", [1])}
OUTPUTS: Tensors = {
    "class_ids": ("TYPE_INT32", [-1]),
    "detection_boxes": ("TYPE_FP32", [-1, 4]),
}
pytriton = pytest.importorskip("pytriton", reason="the server's wheel is not installed")


@pytest.fixture(scope="module")
def server_utils() -> ModuleType:
    folder = Path(pytriton.__file__).parent / "tritonserver" / "backends" / "python"
    file = folder / "triton_python_backend_utils.py"
    spec = importlib.util.spec_from_file_location("server_utils", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def completed(utils: ModuleType, **given: Any) -> dict[str, dict[str, Any]]:
    """The tensors of a config after it was completed, by name."""
    config = {"name": "mine", "max_batch_size": 0, "input": [], "output": [], **given}
    whole = complete_config(utils.ModelConfig(json.dumps(config)), INPUTS, OUTPUTS).as_dict()
    return {tensor["name"]: tensor for side in ("input", "output") for tensor in whole[side]}


def test_all_tensors_where_none_is_declared(server_utils):
    found = completed(server_utils)
    assert list(found) == ["encoded", *OUTPUTS]
    assert found["encoded"]["data_type"] == "TYPE_STRING"
    for name, (data_type, dims) in OUTPUTS.items():
        assert (found[name]["data_type"], found[name]["dims"]) == (data_type, dims)


def test_declared_tensors_keep_their_dims_and_get_their_type(server_utils):
    output = [
        {"name": "class_ids", "data_type": "TYPE_INVALID", "dims": [300]},
        {"name": "masks", "data_type": "TYPE_UINT8", "dims": [7]},
    ]
    found = completed(server_utils, output=output)
    assert list(found) == ["encoded", "class_ids", "masks"]
    assert found["class_ids"]["data_type"] == "TYPE_INT32"
    assert found["class_ids"]["dims"] == [300]
    assert found["masks"] == output[1]


def test_another_type_is_refused(server_utils):
    output = [{"name": "class_ids", "data_type": "TYPE_FP32", "dims": [300]}]
    with pytest.raises(ValueError, match="TYPE_FP32 for output 'class_ids', model provides"):
        completed(server_utils, output=output)
