"""The half for NVIDIA's DALI backend, which no server here has: DALI itself is fed as it feeds it.

`1/dali.py` is serialised by the command that the backend runs, and the pipeline is run by the calls
of DALI's C interface that the backend makes (dali_backend_run.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

import endcap
from endcap.server import ServerSettings
from endcap.server.plan import plan_launch
from tests.support import cli_runs, jpegs
from tests.support.damage import SHIPPED
from tests.triton.init_cases import CASES
from tests.triton.running_server import FREE_PORTS
from tests.triton.test_dali import build_operators

HERE = Path(__file__).resolve().parent
FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
SERIALIZE = """
import importlib, importlib.util, sys
from nvidia.dali._utils.autoserialize import invoke_autoserialize
spec = importlib.util.spec_from_file_location("autoserialize_mod", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["autoserialize_mod"] = module
spec.loader.exec_module(module)
invoke_autoserialize(module, sys.argv[2])
"""
NUMPY_TYPES = {"TYPE_FP32": np.float32, "TYPE_FP16": np.float16, "TYPE_INT32": np.int32}


@pytest.fixture(scope="module")
def plugin() -> Path:
    return build_operators()


def run(*command: object) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def run_dali(model: Path, files: list[bytes], plugin: Path, folder: Path) -> dict[str, Any]:
    """The outputs by the names that configs/dali.pbtxt gives them, in its order."""
    config = read_config(model / "configs" / "dali.pbtxt")
    serialized, output = folder / "model.dali", folder / "outputs.npz"
    run("-c", SERIALIZE, model / "1" / "dali.py", serialized)
    paths = [folder / f"{i}.jpg" for i in range(len(files))]
    for path, file in zip(paths, files, strict=True):
        path.write_bytes(file)
    program = HERE / "dali_backend_run.py"
    run(program, plugin, serialized, config.max_batch_size, output, *paths)
    arrays = np.load(output)
    assert arrays["name"] == config.input[0].name
    assert len(arrays.files) == len(config.output) + 1
    named = {entry.name: arrays[str(i)] for i, entry in enumerate(config.output)}
    for entry in config.output:
        data_type = model_config_pb2.DataType.Name(entry.data_type)
        assert named[entry.name].dtype == NUMPY_TYPES[data_type]
        assert named[entry.name].shape == (len(files), *entry.dims)
    return named


def read_config(file: Path) -> model_config_pb2.ModelConfig:
    return text_format.Parse(file.read_text(), model_config_pb2.ModelConfig())


def test_the_shipped_pipeline_gives_endcaps_tensors(plugin: Path, tmp_path: Path) -> None:
    samples = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))
    files = [path.read_bytes() for path in samples]
    files[2:2] = [b"", files[0][:900]]
    made = run_dali(SHIPPED / "preprocess_dali", files, plugin, tmp_path)
    expected = endcap.preprocess(files, preset="ultralytics", on_error="blank")
    assert made["images"].tobytes() == expected.images.tobytes()
    assert made["status"][:, 0].tolist() == expected.status.tolist()
    assert {*made["status"][2:4, 0]} == {int(endcap.Status.CORRUPT_IMAGE)}
    # The pipeline does not know requests, so that the place in one is missing.
    np.testing.assert_array_equal(made["geometry"][:, :7], expected.geometry[:, :7])
    assert not made["geometry"][:, 7].any()


def test_the_shipped_configs_differ_by_the_input_and_the_backend() -> None:
    plain = read_config(SHIPPED / "preprocess_dali" / "config.pbtxt")
    custom = read_config(SHIPPED / "preprocess_dali" / "configs" / "dali.pbtxt")
    assert [(entry.name, [*entry.dims]) for entry in custom.input] == [("encoded", [-1])]
    assert custom.input[0].data_type == model_config_pb2.TYPE_UINT8
    for config in (plain, custom):
        for field in ("input", "backend", "parameters"):
            config.ClearField(field)
    del custom.dynamic_batching.preferred_batch_size[:]
    assert custom == plain


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("v8_half", ["--set", "mean=0.1,0.2,0.3", "--set", "upscale=false", "--max-batch", 4]),
        ("logits", ["--head", "classification", "--set", "interpolation=area"]),
    ],
)
def test_what_init_writes_gives_the_tensors_of_its_parameters(
    plugin: Path, tmp_path: Path, name: str, options: list[object]
) -> None:
    case = CASES[name]
    network = case.network.write(tmp_path / "network.onnx")
    arguments = [*case.options, *options, "--preprocess", "dali"]
    done = cli_runs.endcap("init", network, "-o", tmp_path / "models", *arguments)
    assert done.exit_code == 0, done.stderr
    model = tmp_path / "models" / "preprocess"
    parameters = read_config(model / "config.pbtxt").parameters
    given = {k: v.string_value for k, v in parameters.items() if not k.startswith("FORCE")}
    expected = endcap.preprocess(FILES, **given)
    made = run_dali(model, FILES, plugin, tmp_path)
    assert [*made] == ["images", "geometry", "status"][:: 2 if name == "logits" else 1]
    assert made["images"].tobytes() == expected.images.tobytes()
    assert not made["status"].any()
    (ensemble,) = {path.parent.parent for path in (tmp_path / "models").glob("*/configs/*")} - {
        model
    }
    taken = read_config(ensemble / "configs" / "dali.pbtxt").ensemble_scheduling.step[0].output_map
    assert {*taken} == {*made}, "the backend returns all outputs or none"


def test_the_config_that_init_writes_for_nvidias_backend(tmp_path: Path) -> None:
    """Its warm-up is the plain file, and it does not merge requests.

    Without NVIDIA's driver the backend's copy of a merged batch fails. `dynamic_batching` has to be
    there: where it is missing the backend adds it.
    """
    network = CASES["v8"].network.write(tmp_path / "network.onnx")
    arguments = ["-o", tmp_path / "models", "--preprocess", "dali"]
    assert cli_runs.endcap("init", network, *arguments).exit_code == 0
    model = tmp_path / "models" / "preprocess"
    for each in (SHIPPED / "preprocess_dali", model):
        config = read_config(each / "configs" / "dali.pbtxt")
        assert [*config.dynamic_batching.preferred_batch_size] == [1]
        assert not read_config(each / "config.pbtxt").dynamic_batching.preferred_batch_size
    (warm_up,) = read_config(model / "configs" / "dali.pbtxt").model_warmup
    picture = model / "warmup" / warm_up.inputs["encoded"].input_data_file
    assert [*warm_up.inputs["encoded"].dims] == [picture.stat().st_size]
    assert endcap.preprocess(picture.read_bytes()).images.any()


def test_serve_gives_the_backend_the_operators(plugin: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = ServerSettings(ports=FREE_PORTS, models=("preprocess_dali",), config_name="dali")
    command = plan_launch(SHIPPED, settings, scratch).command
    assert "--model-config-name=dali" in command
    assert f"--backend-config=dali,plugin_libs={plugin}" in command


def test_the_threads_are_the_same_in_both_places() -> None:
    model = SHIPPED / "preprocess_dali"
    threads = read_config(model / "configs" / "dali.pbtxt").parameters["num_threads"].string_value
    assert f"num_threads={threads}" in (model / "1" / "dali.py").read_text()
    batch = read_config(model / "config.pbtxt").max_batch_size
    assert re.search(rf"batch_size={batch}\b", (model / "1" / "dali.py").read_text())
