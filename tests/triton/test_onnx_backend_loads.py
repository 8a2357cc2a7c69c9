"""Networks and libraries that endcap_onnx cannot use, and networks that come and go."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tritonclient.grpc as grpc_client
from onnx import TensorProto, helper

from tests.triton.calls import infer
from tests.triton.model_folders import ON_CPU, tensor
from tests.triton.onnx_models import (
    EXPLICIT,
    KEEPS_FREED_MEMORY,
    adding,
    constant,
    find_library,
    multiplying,
    network,
    run_onnx_server,
    value,
    write_network,
)
from tests.triton.running_server import RunningServer

MIB = 1 << 20
MOST_BYTES = 2**31 - 1
# The oldest API, and a release of that time.
OLD_LIBRARY = """
#include <stdint.h>
struct base { const void *(*get_api)(uint32_t); const char *(*version)(void); };
static const void *get_api(uint32_t version) { (void)version; return 0; }
static const char *version(void) { return "1.9.1"; }
static const struct base base = {get_api, version};
const struct base *OrtGetApiBase(void) { return &base; }
"""


def newer_opset() -> onnx.ModelProto:
    made = adding(1)
    made.opset_import[0].version = 999
    return made


def newer_ir_version() -> onnx.ModelProto:
    made = adding(1)
    made.ir_version = 999
    return made


def unknown_operator() -> onnx.ModelProto:
    return network(
        [helper.make_node("Frobnicate", ["x"], ["y"])],
        [value("x", ["batch", 4])],
        [value("y", ["batch", 4])],
    )


def sequence() -> onnx.ModelProto:
    kind = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    return network(
        [helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1)],
        [value("x", ["batch", 4])],
        [kind],
    )


def complex_numbers() -> onnx.ModelProto:
    kind = helper.make_tensor_value_info("x", TensorProto.COMPLEX64, ["batch", 4])
    made = helper.make_tensor_value_info("y", TensorProto.COMPLEX64, ["batch", 4])
    return network([helper.make_node("Identity", ["x"], ["y"])], [kind], [made])


# Name -> the file's content, and what the reason of the refused load says.
FILES: Mapping[str, tuple[Callable[[], onnx.ModelProto | bytes], tuple[str, ...]]] = {
    "empty": (lambda: b"", ("is empty",)),
    "text": (lambda: b"no network at all, but text", ("damaged", "cannot be loaded")),
    "cut": (lambda: multiplying(64, 3).SerializeToString()[:9000], ("damaged",)),
    "newer": (newer_opset, ("older opset", "ONNX Runtime 1.")),
    "newest": (newer_ir_version, ("IR version", "ONNX Runtime 1.")),
    "unknown_operator": (unknown_operator, ("Frobnicate", "an operator that ONNX Runtime 1.")),
    "sequence": (sequence, ("output 'parts'", "not a dense tensor")),
    "complex_numbers": (complex_numbers, ("complex",)),
}

_X, _Y = tensor("x", "TYPE_FP32", [4]), tensor("y", "TYPE_FP32", [4])


def accelerator(kind: str, name: str) -> str:
    list_of_one = f'{kind}_execution_accelerator: [ {{ name: "{name}" }} ]'
    return f"optimization {{ execution_accelerators {{ {list_of_one} }} }} {ON_CPU}"


# Name -> options of write_network, and what the reason of the refused load says.
CONFIGS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown_parameter": (
        {"parameters": {"intra_op_threads": 2}},
        ("'intra_op_threads' is not a parameter", "intra_op_thread_count", "merge_requests"),
    ),
    "bad_count": (
        {"parameters": {"intra_op_thread_count": "two"}},
        ("intra_op_thread_count is 'two'",),
    ),
    "bad_mode": ({"parameters": {"execution_mode": 2}}, ("execution_mode is '2'", "1 or 0")),
    "bad_level": ({"more": "optimization { graph { level: 7 } }"}, ("level is 7",)),
    "no_arena": (
        {
            "parameters": {
                "enable_mem_arena": 0,
                "memory.enable_memory_arena_shrinkage": "cpu:0",
            }
        },
        ("enable_mem_arena: 0",),
    ),
    "tensorrt": (
        {"more": accelerator("gpu", "tensorrt")},
        ("has no TensorrtExecutionProvider", "CPUExecutionProvider", "onnxruntime-gpu"),
    ),
    "cuda": ({"more": accelerator("gpu", "cuda")}, ("has no CUDAExecutionProvider",)),
    "other_accelerator": ({"more": accelerator("gpu", "magic")}, ("'magic' is unknown",)),
    "openvino": ({"more": accelerator("cpu", "openvino")}, ("'openvino' is not supported",)),
    "sequences": (
        {"max_batch_size": 4, "more": "sequence_batching { max_sequence_idle_microseconds: 9 }"},
        ("sequence_batching",),
    ),
    "other_type": (
        {"max_batch_size": 4, "inputs": [tensor("x", "TYPE_FP16", [4])], "outputs": [_Y]},
        ("input 'x' is TYPE_FP16 [4]", "TYPE_FP32 [4]", "model.onnx"),
    ),
    "other_dims": (
        {"max_batch_size": 4, "inputs": [_X], "outputs": [tensor("y", "TYPE_FP32", [5])]},
        ("output 'y' is TYPE_FP32 [5]", "TYPE_FP32 [4]"),
    ),
    "other_name": (
        {"max_batch_size": 4, "inputs": [tensor("z", "TYPE_FP32", [4])], "outputs": [_Y]},
        ("an input 'z'", "are x"),
    ),
}


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of ONNX Runtime's name and entry point, as old as to know no API that is asked."""
    folder = tmp_path_factory.mktemp("library")
    source, library = folder / "old.c", folder / "libonnxruntime.so.1"
    source.write_text(OLD_LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, old_library: Path) -> Path:
    folder = tmp_path_factory.mktemp("refused")
    for name, (make, _) in FILES.items():
        write_network(folder, name, make())
    for name, (options, _) in CONFIGS.items():
        write_network(folder, name, adding(1), **options)
    write_network(folder, "missing_file", adding(1)).unlink()
    write_network(folder, "misnamed_file", adding(1), more='default_model_filename: "network.onnx"')
    sparse = write_network(folder, "sparse", adding(1))
    os.truncate(sparse, MOST_BYTES + 1)
    write_network(folder, "no_batch", adding(1, [2, 3]), max_batch_size=4)
    _write_with_external_data(folder, "weights_beside")
    (_write_with_external_data(folder, "weights_gone") / "weights.bin").unlink()
    others = {
        "library_missing": "/nowhere/libonnxruntime.so.1",
        "library_old": old_library,
        "library_other": ctypes.util.find_library("m"),
    }
    for name, library in others.items():
        write_network(folder, name, adding(1), parameters={"onnxruntime_library": library})
    write_network(folder, "good", adding(1))
    return folder


def _write_with_external_data(folder: Path, name: str) -> Path:
    file = write_network(folder, name, b"")
    made = network(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        [value("x", ["batch", 64])],
        [value("y", ["batch", 64])],
        [constant("weights", 2 * np.eye(64, dtype=np.float32))],
    )
    onnx.save(made, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return file.parent


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[RunningServer]:
    with run_onnx_server(repository) as running:
        yield running


def refusal(server: RunningServer, model: str) -> str:
    found = server.index()[model]
    assert found["state"] == "UNAVAILABLE"
    return found["reason"]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_cannot_be_loaded(server, repository, name) -> None:
    reason = refusal(server, name)
    assert reason.startswith("Invalid argument: ")
    assert f"{repository}/{name}/1/model.onnx" in reason or name == "complex_numbers"
    for text in FILES[name][1]:
        assert text in reason


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_that_cannot_be_carried_out(server, name) -> None:
    reason = refusal(server, name)
    assert reason.startswith("Invalid argument: ")
    for text in CONFIGS[name][1]:
        assert text in reason


def test_a_missing_file_is_named(server, repository) -> None:
    reason = refusal(server, "missing_file")
    assert f"'{repository}/missing_file/1/model.onnx' does not exist" in reason
    assert "default_model_filename" in reason
    assert f"'{repository}/misnamed_file/1/network.onnx' does not exist" in refusal(
        server, "misnamed_file"
    )


def test_a_file_beyond_2_gib_is_refused_unread(server) -> None:
    reason = refusal(server, "sparse")
    assert f"has {MOST_BYTES + 1} bytes" in reason
    assert "external data" in reason
    assert server.resident_bytes() < 1 << 30


def test_batches_for_a_network_that_has_none(server) -> None:
    reason = refusal(server, "no_batch")
    assert "input 'x'" in reason
    assert "give max_batch_size: 0" in reason


def test_external_data(server) -> None:
    with grpc_client.InferenceServerClient(server.grpc) as client:
        x = np.ones((2, 64), np.float32)
        assert infer(client, "weights_beside", {"x": x})["y"].tolist() == (2 * x).tolist()
    reason = refusal(server, "weights_gone")
    assert "weights.bin" in reason
    assert "copy the files with the network's external data" in reason


def test_a_library_that_is_not_there(server) -> None:
    reason = refusal(server, "library_missing")
    assert "'/nowhere/libonnxruntime.so.1' (parameter onnxruntime_library" in reason
    for remedy in ("pip install onnxruntime", "--backend-config", "ENDCAP_ONNXRUNTIME"):
        assert remedy in reason


def test_a_library_that_is_too_old(server, old_library) -> None:
    reason = refusal(server, "library_old")
    assert f"'{old_library}'" in reason
    assert "is ONNX Runtime 1.9.1, but 1.16 or later is needed" in reason
    assert "pip install --upgrade onnxruntime" in reason


def test_a_library_of_something_else(server) -> None:
    assert "it has no OrtGetApiBase" in refusal(server, "library_other")


def test_the_good_model_is_served(server) -> None:
    with grpc_client.InferenceServerClient(server.grpc) as client:
        assert infer(client, "good", {"x": np.zeros((1, 4), np.float32)})["y"].tolist() == [[1] * 4]


@pytest.mark.parametrize("named_by", ["environment", "command line", "endcap serve", "nobody"])
def test_where_the_library_is_looked_for(
    tmp_path: Path, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_network(tmp_path, "adding", adding(1))
    options: list[str] = []
    variable = str(find_library())
    if named_by == "command line":  # which comes first
        variable = "/nowhere/from/environment"
        options = [f"--backend-config=endcap_onnx,onnxruntime_library={find_library()}"]
    elif named_by == "endcap serve":
        variable = ""
    elif named_by == "nobody":
        variable = ""
        monkeypatch.setattr("endcap.server.plan.onnxruntime_options", lambda *_: [])
    with run_onnx_server(tmp_path, *options, library=variable) as server:
        model = server.index()["adding"]
    if named_by == "nobody":
        assert model["state"] == "UNAVAILABLE"
        assert "'libonnxruntime.so.1' (the default) cannot be opened" in model["reason"]
    else:
        assert model["state"] == "READY"


def test_config_that_is_not_completed_is_checked(tmp_path: Path) -> None:
    write_network(tmp_path, "bare", adding(1))
    write_network(tmp_path, "whole", adding(1), max_batch_size=4, inputs=[_X], outputs=[_Y])
    options = ("--disable-auto-complete-config", "--allow-metrics=false")
    with run_onnx_server(tmp_path, *options) as server:
        assert "input 'x' is missing in the config" in refusal(server, "bare")
        with grpc_client.InferenceServerClient(server.grpc) as client:
            x = np.zeros((4, 4), np.float32)
            assert infer(client, "whole", {"x": x})["y"].tolist() == (x + 1).tolist()


@KEEPS_FREED_MEMORY
@pytest.mark.slow
def test_memory_stays_flat_over_200_loads(tmp_path: Path) -> None:
    """Each load holds 4 MB of weights, in two sessions; two versions."""
    file = write_network(
        tmp_path,
        "weights",
        multiplying(1024, 1),
        max_batch_size=4,
        more="version_policy { all {} }",
    )
    (file.parents[1] / "2").mkdir()
    shutil.copy(file, file.parents[1] / "2" / "model.onnx")
    write_network(tmp_path, "stays", adding(1))
    x = np.ones((1, 2, 1024), np.float32)
    with (
        run_onnx_server(tmp_path, *EXPLICIT) as server,
        grpc_client.InferenceServerClient(server.grpc) as client,
    ):

        def reload(times: int) -> None:
            for _ in range(times):
                client.unload_model("weights")
                client.load_model("weights")
                infer(client, "weights", {"x": x})

        def threads() -> int:
            return len(list(Path(f"/proc/{server.pid}/task").iterdir()))

        reload(20)
        bytes_before, threads_before = server.resident_bytes(), threads()
        reload(180)
        # Two loads leave 16 MB; unloading takes some time after its response.
        assert server.resident_bytes() < bytes_before + 48 * MIB
        assert threads() <= threads_before + 8
        assert infer(client, "stays", {"x": np.zeros((1, 4), np.float32)})["y"].tolist() == [
            [1] * 4
        ]
