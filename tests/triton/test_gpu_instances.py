"""Instances on a GPU in a real server: the CPU's numbers, tensors in GPU memory between steps."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

import endcap
from endcap.triton.installation import gpu_count
from tests.support import jpegs, sample_heads
from tests.triton.calls import infer, strings
from tests.triton.model_folders import batching, write_postprocess, write_preprocess
from tests.triton.running_server import RunningServer, run_server
from tests.triton.served_models import (
    ANCHORS,
    ENCODED,
    NUM_CLASSES,
    POSTPROCESS,
    PREPROCESS_TEXT,
    ROIS,
)

STATE = endcap.cuda_state()
WHY_NOT = STATE.reason or ("" if gpu_count() else "the server sees no GPU, and refuses KIND_GPU")
pytestmark = pytest.mark.skipif(
    bool(WHY_NOT) and os.environ.get("ENDCAP_REQUIRE_CUDA") != "1", reason=WHY_NOT or "-"
)

FILES = [jpegs.photo_jpeg(60, 90), jpegs.photo_jpeg(200, 120, seed=1)]
HEAD = sample_heads.yolov8_head(5, anchors=ANCHORS, num_classes=NUM_CLASSES)[None]
GEOMETRY = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0]], np.float32)
SEG = {
    **{"head": "yolov8_seg", "num_classes": "2", "mask_coefficients": "8"},
    **{"prototype_size": "40,80", "input_size": "160,320", "max_detections": "20"},
}
# One step, so that its outputs are tensors inside the server before they are the client's.
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "images" data_type: TYPE_FP32 dims: [ 3, 96, 128 ] }
output { name: "geometry" data_type: TYPE_FP32 dims: [ 8 ] }
ensemble_scheduling { step {
  model_name: "pre_gpu" model_version: -1
  input_map { key: "encoded" value: "encoded" }
  output_map { key: "images" value: "images" }
  output_map { key: "geometry" value: "geometry" }
} }
"""


@pytest.fixture(scope="module")
def gpu_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("gpu_repository")
    for kind in ("cpu", "gpu"):
        more = batching(1000) + f"\ninstance_group {{ count: 2 kind: KIND_{kind.upper()} }}"
        write_preprocess(
            repository, f"pre_{kind}", max_batch_size=8, parameters=PREPROCESS_TEXT, more=more
        )
        write_postprocess(
            repository, f"post_{kind}", max_batch_size=8, parameters=POSTPROCESS, more=more
        )
        on_it = f"instance_group {{ kind: KIND_{kind.upper()} }}"
        write_preprocess(
            repository,
            f"rois_{kind}",
            parameters=PREPROCESS_TEXT | {"on_error": "blank"},
            inputs=[ENCODED, ROIS],
            more=on_it,
        )
        write_postprocess(repository, f"seg_{kind}", max_batch_size=8, parameters=SEG, more=on_it)
    (repository / "pre_ensemble" / "1").mkdir(parents=True)
    (repository / "pre_ensemble" / "config.pbtxt").write_text(ENSEMBLE)
    # The GPU's own metrics take NVIDIA's monitor, which no test here needs.
    with run_server(repository, "--allow-gpu-metrics=false") as running:
        failed = {
            n: m.get("reason") for n, m in running.index().items() if m.get("state") != "READY"
        }
        assert not failed
        yield running


@pytest.fixture
def gpu_client(gpu_server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(gpu_server.grpc) as connection:
        yield connection


ROIS_GIVEN = np.float32([[3, 4, 40, 50], [0, 0, 120, 200], [500, 500, 600, 600]])
MASKS = sample_heads.seg_outputs(1, anchors=70, num_classes=2, size=(40, 80))
CASES = {
    "pre": {"encoded": strings(FILES)},
    "post": {"head": HEAD, "geometry": GEOMETRY},
    "rois": {"encoded": strings(FILES[1:], batched=False), "rois": ROIS_GIVEN},
    "seg": {name: array[None] for name, array in MASKS.items()} | {"geometry": GEOMETRY},
}


@pytest.mark.parametrize("model", CASES)
def test_responses_are_the_cpu_s(gpu_client, model: str) -> None:
    expected = infer(gpu_client, f"{model}_cpu", CASES[model])
    for name, array in infer(gpu_client, f"{model}_gpu", CASES[model]).items():
        np.testing.assert_array_equal(array, expected[name], name)
    if model == "rois":
        assert expected["status"].tolist() == [0, 0, endcap.Status.INVALID_ARGUMENT]
    if model == "seg":
        assert max(len(mask) for mask in expected["detection_rle"][0]) > 20


def test_an_ensemble_keeps_images_on_the_gpu(gpu_client, gpu_server: RunningServer) -> None:
    tensors = {"encoded": strings(FILES)}
    expected = infer(gpu_client, "pre_cpu", tensors)
    for name, array in infer(gpu_client, "pre_ensemble", tensors).items():
        np.testing.assert_array_equal(array, expected[name], name)
    assert gpu_server.metric("endcap_preprocess_spills_total", model="pre_gpu") == 0


def test_errors_are_the_cpu_s(gpu_client) -> None:
    def message(model: str) -> str:
        with pytest.raises(InferenceServerException) as caught:
            infer(gpu_client, model, {"encoded": strings([FILES[0], b"no image"])})
        return str(caught.value.message())

    assert message("pre_gpu") == message("pre_cpu")
    expected = infer(gpu_client, "pre_cpu", {"encoded": strings(FILES)})
    after = infer(gpu_client, "pre_gpu", {"encoded": strings(FILES)})
    np.testing.assert_array_equal(after["images"], expected["images"])
