"""Networks and libraries that endcap_onnx cannot use, and networks that come and go."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.onnx_heads import network
from tests.triton.calls import infer
from tests.triton.model_folders import ON_CPU, tensor
from tests.triton.onnx_models import (
    KEEPS_FREED_MEMORY,
    adding,
    find_library,
    multiplying,
    write_network,
)
from tests.triton.running_server import RunningServer, run_server

MAX_BYTES = 2**31 - 1
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


UNKNOWN_OPERATOR = network("(float[n,4] x) => (float[n,4] y)", "y = Frobnicate(x)")
SEQUENCE = network("(float[n,4] x) => (seq(float) parts)", "parts = SplitToSequence<axis=1>(x)")


# Name -> the file's content, and what the reason of the refused load says.
FILES: Mapping[str, tuple[onnx.ModelProto | bytes, tuple[str, ...]]] = {
    "empty": (b"", ("is empty",)),
    "text": (b"no network at all, but text", ("damaged", "cannot be loaded")),
    "cut": (multiplying(64, 3).SerializeToString()[:9000], ("damaged",)),
    "newer": (newer_opset(), ("older opset", "ONNX Runtime 1.")),
    "unknown_operator": (UNKNOWN_OPERATOR, ("Frobnicate", "an operator that ONNX Runtime 1.")),
    "sequence": (SEQUENCE, ("output 'parts'", "not a dense tensor")),
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
    "other_accelerator": ({"more": accelerator("gpu", "magic")}, ("'magic' is unknown",)),
    "openvino": ({"more": accelerator("cpu", "openvino")}, ("'openvino' is not supported",)),
    "sequences": (
        {"max_batch_size": 4, "more": "sequence_batching { max_sequence_idle_microseconds: 9 }"},
        ("sequence_batching",),
    ),
    "other_dims": (
        {"max_batch_size": 4, "inputs": [_X], "outputs": [tensor("y", "TYPE_FP32", [5])]},
        ("output 'y' is TYPE_FP32 [5]", "TYPE_FP32 [4]"),
    ),
    "no_batches": (
        {"made": adding(1, [2, 3]), "max_batch_size": 4},
        ("input 'x'", "give max_batch_size: 0"),
    ),
    "other_name": (
        {"max_batch_size": 4, "inputs": [tensor("z", "TYPE_FP32", [4])], "outputs": [_Y]},
        ("an input 'z'", "are x"),
    ),
}


def external_data(folder: Path, name: str) -> Path:
    file = write_network(folder, name, b"")
    weights = 2 * np.eye(64, dtype=np.float32)
    made = network("(float[n,64] x) => (float[n,64] y)", "y = MatMul(x, weights)", weights=weights)
    onnx.save(made, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return file.parent


@pytest.fixture
def refusal(compiled_server: RunningServer) -> Callable[..., str]:
    """Writes a network and returns the reason why it does not load."""

    def refuse(name: str, made: onnx.ModelProto | bytes, **options: Any) -> str:
        write_network(compiled_server.repository, name, made, **options)
        return compiled_server.refusal(name)

    return refuse


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_cannot_be_loaded(refusal, name) -> None:
    made, texts = FILES[name]
    reason = refusal(f"file_{name}", made)
    assert reason.startswith("Invalid argument: ")
    assert f"/file_{name}/1/model.onnx" in reason
    for text in texts:
        assert text in reason


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_that_cannot_be_carried_out(refusal, name) -> None:
    options, texts = CONFIGS[name]
    reason = refusal(f"config_{name}", options.pop("made", adding(1)), **options)
    assert reason.startswith("Invalid argument: ")
    for text in texts:
        assert text in reason


def test_a_missing_file_is_named(compiled_server, refusal) -> None:
    write_network(compiled_server.repository, "missing_file", adding(1)).unlink()
    reason = compiled_server.refusal("missing_file")
    assert "/missing_file/1/model.onnx' does not exist" in reason
    assert "default_model_filename" in reason
    other = refusal("misnamed_file", adding(1), more='default_model_filename: "network.onnx"')
    assert "/misnamed_file/1/network.onnx' does not exist" in other


def test_a_file_beyond_2_gib_is_refused_unread(compiled_server) -> None:
    os.truncate(write_network(compiled_server.repository, "sparse", adding(1)), MAX_BYTES + 1)
    before = compiled_server.resident_bytes()
    reason = compiled_server.refusal("sparse")
    assert f"has {MAX_BYTES + 1} bytes" in reason
    assert "external data" in reason
    assert compiled_server.peak_resident_bytes() - before < 1 << 29


def test_external_data(compiled_server, client) -> None:
    external_data(compiled_server.repository, "weights_here")
    compiled_server.load("weights_here")
    x = np.ones((2, 64), np.float32)
    assert infer(client, "weights_here", {"x": x})["y"].tolist() == (2 * x).tolist()
    (external_data(compiled_server.repository, "weights_gone") / "weights.bin").unlink()
    reason = compiled_server.refusal("weights_gone")
    assert "weights.bin" in reason
    assert "copy the files with the network's external data" in reason


def test_a_library_that_cannot_be_used(refusal, tmp_path) -> None:
    old = tmp_path / "libonnxruntime.so.1"
    (tmp_path / "old.c").write_text(OLD_LIBRARY)
    compiler = ["gcc", "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(old)]
    subprocess.run(compiler, check=True)
    missing = "/nowhere/libonnxruntime.so.1"
    remedies = ("pip install onnxruntime", "--backend-config", "ENDCAP_ONNXRUNTIME")
    for name, library, texts in (
        ("missing", missing, (f"'{missing}' (parameter onnxruntime_library", *remedies)),
        ("old", old, (f"'{old}'", "is ONNX Runtime 1.9.1, but 1.16 or later is needed")),
        ("other", ctypes.util.find_library("m"), ("it has no OrtGetApiBase",)),
    ):
        parameters = {"onnxruntime_library": library}
        reason = refusal(f"library_{name}", adding(1), parameters=parameters)
        for text in texts:
            assert text in reason


@pytest.mark.parametrize("named_by", ["environment", "command line"])
def test_where_the_library_is_looked_for(
    tmp_path: Path, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start has other options; tests/python/server has what `endcap serve` names."""
    write_network(tmp_path, "adding", adding(1))
    variable, options = str(find_library()), []
    if named_by == "command line":  # which comes first
        variable = "/nowhere/from/environment"
        options = [f"--backend-config=endcap_onnx,onnxruntime_library={find_library()}"]
    monkeypatch.setenv("ENDCAP_ONNXRUNTIME", variable)
    with run_server(tmp_path, *options) as server:
        assert server.index()["adding"]["state"] == "READY"


@KEEPS_FREED_MEMORY
@pytest.mark.slow
def test_memory_stays_flat_over_200_loads(compiled_server: RunningServer, client) -> None:
    """Each load holds 4 MB of weights, in two sessions; two versions."""
    repository, both = compiled_server.repository, "version_policy { all {} }"
    write_network(repository, "weights", multiplying(1024, 1), max_batch_size=4, more=both)
    write_network(repository, "weights", multiplying(1024, 1), file="2/model.onnx")
    write_network(repository, "stays", adding(1))
    compiled_server.load("stays")
    x = np.ones((1, 2, 1024), np.float32)

    def reload(times: int) -> None:
        for _ in range(times):
            client.unload_model("weights")
            client.load_model("weights")
            infer(client, "weights", {"x": x})

    def threads() -> int:
        return len(list(Path(f"/proc/{compiled_server.pid}/task").iterdir()))

    reload(20)
    bytes_before, threads_before = compiled_server.resident_bytes(), threads()
    reload(180)
    # Two loads leave 16 MB; unloading takes some time after its response.
    assert compiled_server.resident_bytes() < bytes_before + (48 << 20)
    assert threads() <= threads_before + 8
    assert infer(client, "stays", {"x": np.zeros((1, 4), np.float32)})["y"].tolist() == [[1] * 4]
