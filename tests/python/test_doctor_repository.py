"""endcap doctor on repositories that a server could not serve."""

from __future__ import annotations

from pathlib import Path

import pytest
from doctor_world import World, doctor
from echo_model import TENSORS, write_echo_model, write_model

from endcap.doctor.repository import needed_backend
from endcap.server.repository import read_repository

ENSEMBLE = """
platform: "ensemble"
ensemble_scheduling {
  step [
    { model_name: "echo" input_map { key: "x" value: "x" } output_map { key: "y" value: "z" } },
    { model_name: "absent" input_map { key: "x" value: "z" } output_map { key: "y" value: "y" } }
  ]
}
"""


def test_a_repository_that_is_no_folder(tmp_path: Path) -> None:
    answer = doctor("--repository", tmp_path / "nowhere")
    answer.expect("repository", "error", f"{tmp_path}/nowhere is not a folder", "--repository PATH")
    assert answer.errors == {"repository"}
    assert answer.exit_code == 2
    assert answer.findings["model_versions"]["found"].startswith("not looked at")


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    write_echo_model(tmp_path)
    (tmp_path / "pictures").mkdir()
    answer = doctor("--repository", tmp_path)
    answer.expect("repository", "error", f"{tmp_path}/pictures is no model", "version folder")


def test_an_installation_without_a_repository(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.endcap / "model_repository" / "detect" / "config.pbtxt").unlink()
    (world.endcap / "model_repository").rename(tmp_path / "taken_away")
    answer = world.doctor()
    answer.expect(
        "repository",
        "error",
        "no model_repository belongs to this installation of endcap",
        "pip install --force-reinstall --no-deps endcap",
    )


def test_what_a_repository_lacks(tmp_path: Path) -> None:
    write_echo_model(tmp_path)
    write_model(tmp_path, "network", 'backend: "onnxruntime"' + TENSORS)
    write_model(tmp_path, "ensemble", ENSEMBLE + TENSORS)
    (tmp_path / "ensemble" / "1").rmdir()
    answer = doctor("--repository", tmp_path)
    answer.expect(
        "model_backends",
        "error",
        "the server has no such backend: network needs onnxruntime (it has endcap_postprocess, ",
        "--tritonserver PATH",
        'backend: "python" and a model.py',
    )
    answer.expect(
        "model_versions", "error", "ensemble is without a version folder", "`mkdir ", "ensemble/1`"
    )
    answer.expect("ensembles", "error", "ensemble calls absent", f"put the model into {tmp_path}")
    assert answer.errors == {"model_backends", "model_versions", "ensembles"}


def test_a_backend_that_the_model_brings_will_do(tmp_path: Path) -> None:
    write_model(tmp_path, "network", 'backend: "of_my_own"' + TENSORS)
    (tmp_path / "network" / "1" / "libtriton_of_my_own.so").touch()
    assert doctor("--repository", tmp_path).errors == set()


@pytest.mark.parametrize(
    ("config", "file", "backend"),
    [
        ('backend: "endcap_preprocess"', "model.onnx", "endcap_preprocess"),
        ('platform: "tensorrt_plan"', "model.plan", "tensorrt"),
        ('platform: "onnxruntime_onnx"', "other.onnx", "onnxruntime"),
        ('platform: "ensemble"', "README", ""),
        ("max_batch_size: 4", "model.onnx", "onnxruntime"),
        ("max_batch_size: 4", "model.py", "python"),
        ("max_batch_size: 4", "weights", ""),
        ('# backend: "tensorrt"', "model.pt", "pytorch"),
    ],
)
def test_the_backend_is_the_one_that_triton_would_take(
    tmp_path: Path, config: str, file: str, backend: str
) -> None:
    (model,) = read_repository(write_model(tmp_path, "network", config))
    (tmp_path / "network" / "1" / file).touch()
    assert needed_backend(model) == backend
