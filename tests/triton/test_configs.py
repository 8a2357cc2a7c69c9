"""Configs: what the server completes, what fails a load, and where it takes the libraries from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.support import jpegs
from tests.triton.bad_configs import BAD, BAD_POSTPROCESS, BAD_ROIS
from tests.triton.calls import infer, strings
from tests.triton.model_folders import tensor, write_postprocess, write_preprocess
from tests.triton.onnx_models import adding, write_network
from tests.triton.running_server import RunningServer, run_server
from tests.triton.served_models import (
    MAX_DETECTIONS,
    NUM_CLASSES,
    SIZE,
)

FILE = jpegs.photo_jpeg(120, 90)
Tensors = dict[str, tuple[str, list[int]]]
# By model: inputs and outputs of configs with backend, max_batch_size and parameters, and of those
# that have more, which stays. tests/cpp/contract_test.cc has the rest.
COMPLETED: dict[str, tuple[Tensors, Tensors]] = {
    "pre": (
        {"encoded": ("TYPE_STRING", [1])},
        {
            "images": ("TYPE_FP32", [3, *SIZE]),
            "geometry": ("TYPE_FP32", [8]),
            "status": ("TYPE_INT32", [1]),
        },
    ),
    "rois_names_only": (
        {"rois": ("TYPE_FP32", [-1, 4]), "encoded": ("TYPE_STRING", [1])},
        {
            "images": ("TYPE_UINT8", [-1, 3, *SIZE]),
            "geometry": ("TYPE_FP32", [-1, 8]),
            "status": ("TYPE_INT32", [-1]),
        },
    ),
    "post": (
        {
            "head": ("TYPE_FP32", [4 + NUM_CLASSES, -1]),
            "geometry": ("TYPE_FP32", [8]),
            "status": ("TYPE_INT32", [1]),
        },
        {
            "num_detections": ("TYPE_INT32", [1]),
            "detection_boxes": ("TYPE_FP32", [MAX_DETECTIONS, 4]),
            "detection_scores": ("TYPE_FP32", [MAX_DETECTIONS]),
            "detection_classes": ("TYPE_INT32", [MAX_DETECTIONS]),
            "detection_indices": ("TYPE_INT32", [MAX_DETECTIONS]),
            "status": ("TYPE_INT32", [1]),
        },
    ),
}


@pytest.mark.parametrize("model", COMPLETED)
def test_the_server_completes_configs(server: RunningServer, model):
    config = server.config(model)
    sides = [
        {each["name"]: (each["data_type"], each["dims"]) for each in config[side]}
        for side in ("input", "output")
    ]
    assert sides == list(COMPLETED[model])


def test_inputs_that_a_config_declares_are_not_optional(server: RunningServer):
    for model, optional in (("post", True), ("post_half", False)):
        inputs = {each["name"]: each["optional"] for each in server.config(model)["input"]}
        assert inputs == {"head": False, "geometry": optional, "status": optional}


# --- loads that fail ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BAD))
def test_load_fails_with_an_error_message(compiled_server: RunningServer, name):
    options, texts = BAD[name]
    write = write_postprocess if name in BAD_POSTPROCESS else write_preprocess
    max_batch_size = 0 if name in BAD_ROIS else 4
    write(compiled_server.repository, name, max_batch_size=max_batch_size, **options)
    reason = compiled_server.refusal(name)
    assert reason.startswith("Invalid argument: ")
    for text in texts:
        assert text in reason


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Completes no config and keeps no metrics, by options of its start."""
    repository = tmp_path_factory.mktemp("strict")
    encoded = tensor("encoded", "TYPE_STRING", [1])
    images = tensor("images", "TYPE_FP32", [3, 64, 64])
    for variant in ("compiled", "python"):
        write = partial(write_preprocess, repository, variant=variant)
        small = {"size": 64}
        write(f"whole_{variant}", parameters=small, inputs=[encoded], outputs=[images])
        write(f"empty_{variant}", parameters=small)
        write(f"wrong_{variant}", inputs=[encoded], outputs=[images])
    x, y = (tensor(name, "TYPE_FP32", [4]) for name in "xy")
    write_network(repository, "whole_network", adding(1), max_batch_size=4, inputs=[x], outputs=[y])
    write_network(repository, "empty_network", adding(1))
    options = ("--disable-auto-complete-config", "--allow-metrics=false")
    with run_server(repository, *options) as running:
        yield running


@pytest.mark.usefixtures("python_models")
def test_config_is_checked_where_it_is_not_completed(strict_server: RunningServer):
    index = strict_server.index()
    files = strings([FILE], batched=False)
    with grpc_client.InferenceServerClient(strict_server.grpc) as client:
        for variant in ("compiled", "python"):
            response = infer(client, f"whole_{variant}", {"encoded": files})
            assert response["images"].shape == (3, 64, 64)
            assert index[f"wrong_{variant}"]["state"] == "UNAVAILABLE"
            assert "[3, 64, 64]" in index[f"wrong_{variant}"]["reason"]
            assert "encoded" in index[f"empty_{variant}"]["reason"]
        x = np.zeros((4, 4), np.float32)
        assert infer(client, "whole_network", {"x": x})["y"].tolist() == (x + 1).tolist()
    assert "input 'x' is missing in the config" in index["empty_network"]["reason"]
