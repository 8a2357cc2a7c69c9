"""Python models in an environment that `endcap env pack` has made, on a real server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from endcap.environment.stub import install
from endcap.triton.model_config import set_parameter
from endcap.triton.parameters import EXECUTION_ENVIRONMENT
from tests.support import jpegs, sample_heads
from tests.support.packed_environments import workshop
from tests.triton.calls import infer, strings
from tests.triton.running_server import RunningServer, run_server
from tests.triton.stub_models import RUNNING

SHIPPED = Path(__file__).parents[2] / "model_repository"
STAGES = ("preprocess", "postprocess")
WHERE = """
import sys

import endcap
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        places = np.array([sys.prefix, endcap.__file__, np.__file__, np.__version__], np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("places", places)]) for _ in requests]
"""
WHERE_CONFIG = """
backend: "python"
input { name: "any" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "places" data_type: TYPE_STRING dims: [ 4 ] }
"""
# It shares the environment of another model, so that the server unpacks it once.
SHARED = "$$TRITON_MODEL_DIRECTORY/../preprocess_python/environment.tar.gz"


@pytest.fixture(scope="module")
def environment_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    root = tmp_path_factory.mktemp("environment")
    models = root / "models"
    for stage in STAGES:
        shutil.copytree(SHIPPED / stage, models / stage)
        shutil.copytree(SHIPPED / f"{stage}_python", models / f"{stage}_python")
    with workshop(root) as shop:
        into = [word for stage in STAGES for word in ("--into", models / f"{stage}_python")]
        packed = shop.pack(*into)
    assert packed.exit_code == 0, packed.output
    (models / "where" / "1").mkdir(parents=True)
    (models / "where" / "1" / "model.py").write_text(WHERE)
    (models / "where" / "config.pbtxt").write_text(
        set_parameter(WHERE_CONFIG, EXECUTION_ENVIRONMENT, SHARED)
    )
    install(models / "where", python_version=RUNNING)
    with run_server(models) as running:
        yield running


@pytest.fixture
def client(environment_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(environment_server.grpc) as connection:
        yield connection


def test_the_process_lives_in_the_unpacked_archive(
    client: grpc_client.InferenceServerClient,
) -> None:
    response = infer(client, "where", {"any": np.int32([0])})["places"]
    prefix, endcap_file, numpy_file, numpy_version = (each.decode() for each in response)
    assert prefix.startswith("/tmp/python_env_")
    assert endcap_file.startswith(f"{prefix}/lib/python{RUNNING}/site-packages/endcap/")
    assert numpy_file.startswith(f"{prefix}/lib/python{RUNNING}/site-packages/numpy/")
    assert numpy_version.startswith("1.")


@pytest.mark.parametrize("stage", STAGES)
def test_responses_are_those_of_the_compiled_backend(
    client: grpc_client.InferenceServerClient, stage: str
) -> None:
    tensors = {"encoded": strings([jpegs.photo_jpeg(90, 120, seed=seed) for seed in range(3)])}
    if stage == "postprocess":
        heads = [sample_heads.yolov8_head(seed, anchors=8400, num_classes=6) for seed in range(3)]
        geometry = np.float32([[0.5, 0.5, 0, 80, 1280, 960, 1, 0]] * 3)
        tensors = {
            "head": np.stack(heads), "geometry": geometry, "status": np.zeros((3, 1), np.int32)
        }  # fmt: skip
    compiled = infer(client, stage, tensors)
    python = infer(client, f"{stage}_python", tensors)
    assert sorted(compiled) == sorted(python)
    for name, array in compiled.items():
        assert python[name].tobytes() == array.tobytes(), name
