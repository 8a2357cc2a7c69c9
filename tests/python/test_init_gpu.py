"""endcap init and validate, and the heads that no GPU reads."""

from __future__ import annotations

from pathlib import Path

import extra_networks as extras
import pytest
from cli_runs import endcap as run
from google.protobuf import text_format
from init_runs import written
from tritonclient.grpc import model_config_pb2

import endcap
from endcap.repository.family_parameters import CPU_FAMILIES
from endcap.repository.head import families


def test_what_only_a_cpu_reads_is_what_the_core_refuses_on_a_gpu() -> None:
    refused = []
    for family in families():
        try:
            endcap.Postprocessor(family, device="cuda")
        except endcap.UnsupportedError:
            refused.append(family)
        except endcap.CudaError:
            continue
    assert sorted(refused) == sorted(CPU_FAMILIES)


@pytest.mark.parametrize("family", ["yolov8_seg", "yolov8_pose", "yolov8_obb"])
def test_what_only_a_cpu_reads_gets_no_gpu(family: str, tmp_path: Path) -> None:
    networks = {"yolov8_seg": extras.seg, "yolov8_pose": extras.pose, "yolov8_obb": extras.obb}
    network = networks[family]()
    options = ["--set", "num_keypoints=5"] if family == "yolov8_pose" else []
    text = (written(tmp_path, network, *options) / "postprocess/config.pbtxt").read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    kinds = model_config_pb2.ModelInstanceGroup.Kind
    is_for_cpu = family in CPU_FAMILIES
    expected = ["KIND_CPU"] if is_for_cpu else []
    assert [kinds.Name(group.kind) for group in config.instance_group] == expected
    assert ("No GPU makes run lengths of masks" in text) == is_for_cpu


def test_validate_refuses_a_gpu_for_what_only_a_cpu_reads(tmp_path: Path) -> None:
    models = written(tmp_path, extras.seg())
    config = models / "postprocess/config.pbtxt"
    config.write_text(config.read_text().replace("KIND_CPU", "KIND_GPU"))
    done = run("validate", models)
    assert done.exit_code == 1
    assert (
        "masks of head=yolov8_seg with mask_resolution=source are made by the CPU only"
        in " ".join(done.stdout.split())
    )
    assert done.stdout.count("error:") == 1


@pytest.mark.parametrize("gives_run_lengths", [True, False])
def test_validate_lets_a_gpu_make_packed_masks_alone(
    gives_run_lengths: bool, tmp_path: Path
) -> None:
    models = written(tmp_path, extras.seg(), "--set", "mask_resolution=input")
    config = models / "postprocess/config.pbtxt"
    parsed = text_format.Parse(config.read_text(), model_config_pb2.ModelConfig())
    parsed.instance_group[0].kind = model_config_pb2.ModelInstanceGroup.KIND_GPU
    if not gives_run_lengths:
        for output in list(parsed.output):
            if output.name == "detection_rle":
                parsed.output.remove(output)
    config.write_text(text_format.MessageToString(parsed))
    said = " ".join(run("validate", models).stdout.split())
    sentence = "the model asks for a GPU, and detection_rle is made by the CPU only"
    assert (sentence in said) == gives_run_lengths
