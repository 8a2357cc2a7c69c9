"""Instances on a GPU in a real server: the CPU's numbers, tensors in GPU memory between steps."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from endcap.triton.installation import gpu_count
from tests.support import jpegs, sample_heads
from tests.triton.calls import infer, strings
from tests.triton.model_folders import (
    batching,
    tensor,
    write_ensemble,
    write_postprocess,
    write_preprocess,
)
from tests.triton.running_server import RunningServer
from tests.triton.served_models import (
    ANCHORS,
    ENCODED,
    HEADS,
    NUM_CLASSES,
    POSTPROCESS,
    PREPROCESS_TEXT,
    ROIS,
    SIDE_INPUTS,
    SIZE,
)

STATE = endcap.cuda_state()
WHY_NOT = STATE.reason or ("" if gpu_count() else "the server sees no GPU, and refuses KIND_GPU")
pytestmark = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("ENDCAP_REQUIRE_CUDA") != "1", reason=WHY_NOT or "-"
)

FILES = [jpegs.photo_jpeg(60, 90), jpegs.photo_jpeg(200, 120, seed=1)]
HEAD = sample_heads.yolov8_head(5, anchors=ANCHORS, num_classes=NUM_CLASSES)[None]
GEOMETRY = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0]], np.float32)
ROIS_GIVEN = np.float32([[3, 4, 40, 50], [0, 0, 120, 200], [500, 500, 600, 600]])
# Models of the shared server, which run on the CPU, and requests to them.
CASES = {
    "pre": {"encoded": strings(FILES)},
    "post": {"head": HEAD, "geometry": GEOMETRY},
    "rois_blank": {"encoded": strings(FILES[1:], batched=False), "rois": ROIS_GIVEN},
    "seg": HEADS["seg"].tensors(1) | {"geometry": GEOMETRY},
}


@pytest.fixture(scope="module")
def gpu_server(server: RunningServer) -> RunningServer:
    """The shared server, and the same models with the suffix `_gpu`."""
    on_gpu = {"more": batching(1000) + "\ninstance_group { count: 2 kind: KIND_GPU }"}
    batched = {"max_batch_size": 8, **on_gpu}
    write_preprocess(server.repository, "pre_gpu", parameters=PREPROCESS_TEXT, **batched)
    write_postprocess(server.repository, "post_gpu", parameters=POSTPROCESS, **batched)
    write_postprocess(server.repository, "seg_gpu", parameters=HEADS["seg"].parameters, **batched)
    write_preprocess(
        server.repository,
        "rois_blank_gpu",
        parameters=PREPROCESS_TEXT | {"on_error": "blank"},
        inputs=[ENCODED, ROIS],
        more="instance_group { kind: KIND_GPU }",
    )
    # One step, so that its outputs are tensors inside the server before they are the client's.
    images, geometry = tensor("images", "TYPE_FP32", [3, *SIZE]), SIDE_INPUTS[0]
    passed = {name: name for name in ("images", "geometry")}
    write_ensemble(
        server.repository,
        "pre_ensemble",
        max_batch_size=8,
        inputs=[ENCODED],
        outputs=[images, geometry],
        steps=[("pre_gpu", {"encoded": "encoded"}, passed)],
    )
    server.load(*(f"{model}_gpu" for model in CASES), "pre_ensemble")
    return server


@pytest.mark.parametrize("model", CASES)
def test_responses_are_the_cpu_s(gpu_server: RunningServer, client, model: str) -> None:
    expected = infer(client, model, CASES[model])
    for name, array in infer(client, f"{model}_gpu", CASES[model]).items():
        np.testing.assert_array_equal(array, expected[name], name)
    if model == "rois_blank":
        assert expected["status"].tolist() == [0, 0, endcap.Status.INVALID_ARGUMENT]
    if model == "seg":
        assert max(len(mask) for mask in expected["detection_rle"][0]) > 20


def test_an_ensemble_keeps_images_on_the_gpu(gpu_server: RunningServer, client) -> None:
    expected = infer(client, "pre", CASES["pre"])
    for name, array in infer(client, "pre_ensemble", CASES["pre"]).items():
        np.testing.assert_array_equal(array, expected[name], name)
    assert gpu_server.metric("endcap_preprocess_spills_total", model="pre_gpu") == 0


@pytest.mark.usefixtures("gpu_server")
def test_errors_are_the_cpu_s(client) -> None:
    def message(model: str) -> str:
        with pytest.raises(InferenceServerException) as caught:
            infer(client, model, {"encoded": strings([FILES[0], b"no image"])})
        return str(caught.value.message())

    assert message("pre_gpu") == message("pre")
    expected, after = (infer(client, model, CASES["pre"]) for model in ("pre", "pre_gpu"))
    np.testing.assert_array_equal(after["images"], expected["images"])
