"""endcap init and GPUs: no stage of what it writes is kept from them."""

from __future__ import annotations

from pathlib import Path

import extra_networks as extras
import pytest
from google.protobuf import text_format
from init_runs import written
from tritonclient.grpc import model_config_pb2

import endcap
from endcap.repository.head import families


@pytest.mark.parametrize("family", families())
def test_every_family_is_read_on_a_gpu(family: str) -> None:
    if endcap.cuda_state().available:
        assert endcap.Postprocessor(family, device="cuda").device == "cuda:0"
    else:
        with pytest.raises(endcap.CudaError):
            endcap.Postprocessor(family, device="cuda")


@pytest.mark.parametrize("family", ["yolov8_seg", "yolov8_pose", "yolov8_obb"])
def test_triton_chooses_the_device(family: str, tmp_path: Path) -> None:
    networks = {"yolov8_seg": extras.seg, "yolov8_pose": extras.pose, "yolov8_obb": extras.obb}
    options = ["--set", "num_keypoints=5"] if family == "yolov8_pose" else []
    folder = written(tmp_path, networks[family](), *options)
    text = (folder / "postprocess/config.pbtxt").read_text()
    assert not text_format.Parse(text, model_config_pb2.ModelConfig()).instance_group
