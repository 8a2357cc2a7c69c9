"""endcap doctor on repositories that a server could not serve."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from damage import copy_model
from doctor_world import World, doctor, pasted
from echo_model import ECHO, TENSORS, write_echo_model, write_model
from without_dali import python_without_dali

from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer
from endcap.triton.model_folder import needed_backend, read_repository

FREE = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))

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
    report = doctor("--repository", tmp_path / "nowhere")
    report.expect("repository", "error", f"{tmp_path}/nowhere is not a folder", "--repository PATH")
    assert report.errors == {"repository"}
    assert report.exit_code == 2
    assert report.findings["model_versions"]["found"].startswith("not checked")


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    write_echo_model(tmp_path)
    (tmp_path / "pictures").mkdir()
    report = doctor("--repository", tmp_path)
    report.expect("repository", "error", f"{tmp_path}/pictures is no model", "version folder")


def test_an_installation_without_a_repository(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.endcap / "model_repository" / "detect" / "config.pbtxt").unlink()
    (world.endcap / "model_repository").rename(tmp_path / "taken_away")
    report = world.doctor()
    report.expect(
        "repository",
        "error",
        "no model_repository belongs to this installation of endcap",
        "pip install --force-reinstall --no-deps endcap-",
    )


def test_what_a_repository_lacks(tmp_path: Path) -> None:
    write_echo_model(tmp_path)
    write_model(tmp_path, "network", 'backend: "onnxruntime"' + TENSORS)
    write_model(tmp_path, "ensemble", ENSEMBLE + TENSORS)
    (tmp_path / "ensemble" / "1").rmdir()
    report = doctor("--repository", tmp_path)
    report.expect(
        "model_backends",
        "error",
        "the server has no such backend: network needs onnxruntime (it has endcap_bls, ",
        'write backend: "endcap_onnx" for "onnxruntime"',
        "--tritonserver PATH",
    )
    report.expect(
        "model_versions", "error", "ensemble is without a version folder", "`mkdir ", "ensemble/1`"
    )
    report.expect("ensembles", "error", "ensemble calls absent", f"put the model into {tmp_path}")
    assert report.errors == {"model_backends", "model_versions", "ensembles"}


def test_a_backend_that_nobody_has(tmp_path: Path) -> None:
    write_model(tmp_path, "engine", 'backend: "tensorrt"' + TENSORS)
    write_model(tmp_path, "network", 'backend: "onnxruntime"' + TENSORS)
    doctor("--repository", tmp_path).expect(
        "model_backends", "error", "engine needs tensorrt", 'backend: "python" and a model.py'
    )


def test_the_library_of_onnx_runtime_is_the_packages(tmp_path: Path) -> None:
    copy_model("detector", tmp_path)
    found = doctor("--repository", tmp_path).findings["onnxruntime"]
    assert (found["severity"], Path(found["found"]).parent.name) == ("ok", "capi")
    assert Path(found["found"]).name.startswith("libonnxruntime.so")


def test_a_library_of_onnx_runtime_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_model("detector", tmp_path)
    monkeypatch.setenv("ENDCAP_ONNXRUNTIME", str(tmp_path / "absent.so"))
    doctor("--repository", tmp_path).expect(
        "onnxruntime", "error", f"{tmp_path}/absent.so is no file", "unset ENDCAP_ONNXRUNTIME"
    )


def test_networks_without_onnx_runtime(tmp_path: Path) -> None:
    copy_model("detector", tmp_path / "models")
    world = World(tmp_path / "world", without=["onnxruntime*"])
    world.doctor("--repository", tmp_path / "models").expect(
        "onnxruntime", "error", "detector run in endcap_onnx", "pip install onnxruntime"
    )


def test_models_with_a_dali_pipeline_and_no_dali(tmp_path: Path) -> None:
    copy_model("preprocess_dali", tmp_path / "models")
    python = python_without_dali(tmp_path)
    repository = ("--repository", tmp_path / "models")
    optional = doctor(*repository, python=python)
    assert optional.findings["dali_models"]["found"] == "no model needs them"
    config = tmp_path / "models" / "preprocess_dali" / "config.pbtxt"
    config.write_text(config.read_text().replace('"optional"', '"threads"').replace("true", "1"))
    doctor(*repository, python=python).expect(
        "dali_models",
        "error",
        "preprocess_dali cannot be loaded: DALI is not installed",
        "`endcap dali build`",
    )


def test_what_makes_version_folders_can_be_pasted(tmp_path: Path) -> None:
    repository = tmp_path / "the $HOME of all models that this machine serves to its many users"
    for name in ("echo", "its echo"):
        write_model(repository, name, ENSEMBLE + TENSORS)
        (repository / name / "1").rmdir()
    command = pasted("mkdir", "--repository", repository, environment={"COLUMNS": "70"})
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True)
    report = doctor("--repository", repository)
    assert report.findings["model_versions"]["severity"] == "ok"
    assert [path.name for path in tmp_path.iterdir()] == [repository.name]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ('backend: "python"' + TENSORS + "parameters { key: ", "Expected string"),
        ('backend: "python" colour: 3' + TENSORS, 'has no field named "colour"'),
        ('name: "other" backend: "python"' + TENSORS, "names the model other, its folder echo"),
    ],
    ids=["broken_off", "field", "name"],
)
def test_a_configuration_that_triton_refuses(tmp_path: Path, config: str, reason: str) -> None:
    repository = write_model(tmp_path / "my models", "echo", config, ECHO)
    with pytest.raises(ServerError, match="Poll failed"), TritonServer(repository, FREE):
        pass
    report = doctor("--repository", repository)
    file = repository / "echo" / "config.pbtxt"
    report.expect("model_configs", "error", str(file), reason, f"correct '{file}'")
    assert report.errors == {"model_configs"}


@pytest.mark.parametrize("config", [None, "max_batch_size: 4"])
def test_a_model_that_names_no_backend(tmp_path: Path, config: str | None) -> None:
    write_model(tmp_path, "preprocess", config or "")
    file = tmp_path / "preprocess" / "config.pbtxt"
    if config is None:
        file.unlink()
    with pytest.raises(ServerError, match="backend"), TritonServer(tmp_path, FREE):
        pass
    report = doctor("--repository", tmp_path)
    report.expect("model_configs", "error", "preprocess names no backend", 'backend: "')
    report.expect("model_configs", "error", str(file))
    assert report.errors == {"model_configs"}


def test_configurations_that_triton_takes(tmp_path: Path) -> None:
    write_model(tmp_path, "a.endcap_preprocess", "")
    write_model(tmp_path, "latin", "", ECHO)
    config = '# größer\nparameters { key: "a" value { string_value: "größer" } }'
    (tmp_path / "latin" / "config.pbtxt").write_bytes(config.encode("latin-1"))
    write_model(tmp_path, "file", "", ECHO)
    (tmp_path / "file" / "config.pbtxt").unlink()
    with TritonServer(tmp_path, FREE) as server:
        assert len(server.models()) == 3
    assert doctor("--repository", tmp_path).errors == set()


def test_configurations_without_the_library_that_reads_them(tmp_path: Path) -> None:
    world = World(tmp_path / "world", without=["triton*"])
    repository = write_model(tmp_path / "models", "echo", 'backend: "python" colour: 3', ECHO)
    found = world.doctor("--repository", repository).findings["model_configs"]
    assert found["severity"] == "note"
    assert found["found"] == "not read: Triton's gRPC client is not installed"


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
