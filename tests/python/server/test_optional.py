"""Which models a server leaves out where DALI, PyAV or Python models cannot be used."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from endcap.server import ServerError, locate_server, private_server
from endcap.server import models as server_models
from endcap.server.models import choose_models, leave_out, why_no_python
from endcap.server.private_server import EXECUTABLE, private_server_folder
from endcap.server.python_stub import PYTHON_VERSION
from endcap.triton.model_folder import read_model_folder, read_repository
from tests.support.damage import SHIPPED, copy_model
from tests.support.doctor_world import copied_server
from tests.support.echo_model import write_model


def without_dali(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_operators() -> Path:
        raise ServerError("DALI is not installed; install it")

    monkeypatch.setattr(server_models, "find_operators", find_operators)


def names_left(models: object, kept: object) -> set[str]:
    return {m.path.name for m in models} - {m.path.name for m in kept}  # type: ignore[attr-defined]


def test_an_optional_model_and_its_callers_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_dali(monkeypatch)
    models = read_repository(SHIPPED)
    kept, said = leave_out(models, locate_server())
    assert names_left(models, kept) == {"preprocess_dali"}
    assert said == "preprocess_dali is left out: DALI is not installed; install it"
    copy_model("preprocess_dali", tmp_path)
    config = copy_model("detect", tmp_path, name="caller") / "config.pbtxt"
    config.write_text(config.read_text().replace('"preprocess"', '"preprocess_dali"'))
    kept, said = leave_out(read_repository(tmp_path), locate_server())
    assert kept == []
    assert said.startswith("caller, preprocess_dali are left out: DALI")


def test_without_pyav_the_model_of_videos_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_models, "find_operators", lambda: Path("operators.so"))
    models = read_repository(SHIPPED)
    assert leave_out(models, locate_server()) == (models, ""), "PyAV is installed here"
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "av" else find_spec(name)
    )
    kept, said = leave_out(models, locate_server())
    assert names_left(models, kept) == {"video"}
    assert said.startswith("video is left out: PyAV is not installed; run `pip install")


@pytest.fixture
def without_numpy_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """This Python is newer than the newest for which there is a NumPy below 2."""
    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))


@pytest.mark.usefixtures("without_numpy_1")
def test_where_no_python_model_can_run_the_shipped_ones_are_left_out() -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    models = read_repository(SHIPPED)
    kept, left_out = leave_out(models, own)
    assert f"NumPy below 2, which Python {PYTHON_VERSION} does not have" in left_out
    assert "DALI" not in left_out  # they are left out already
    absent = names_left(models, kept)
    assert {"detect_bls", "preprocess_python", "preprocess_dali"} <= absent
    assert left_out.startswith(f"{', '.join(sorted(absent))} are left out: ")
    pipelines = choose_models(models, ["detect", "classify", "cascade"])
    assert {m.path.name for m in pipelines} <= {m.path.name for m in kept}
    # The pipelines are what a server without Python models must have; the rest is examples.
    assert [m.path.name for m in kept if m.runs_python and m not in pipelines] == []


@pytest.mark.usefixtures("without_numpy_1")
def test_python_models_that_bring_an_environment_are_kept(tmp_path: Path) -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    optional = 'backend: "python" parameters { key: "optional" value { string_value: "true" } }'
    packed = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "env.tar.gz" } }'
    write_model(tmp_path, "packed", f"{optional} {packed}")
    write_model(tmp_path, "plain", optional)
    write_model(tmp_path, "needed", 'backend: "python"')
    kept, left_out = leave_out(read_repository(tmp_path), own)
    assert [m.path.name for m in kept] == ["needed", "packed"]
    assert left_out.startswith("plain is left out: ")


def test_python_models_run_where_there_is_a_stub(tmp_path: Path) -> None:
    assert why_no_python(locate_server(copied_server(tmp_path))) is None
    folder = tmp_path / "pytriton" / "tritonserver" / "python_backend_stubs" / PYTHON_VERSION
    (folder / "triton_python_backend_stub").unlink()
    reason = why_no_python(locate_server(folder.parent.parent))
    assert reason is not None
    assert f"no Python-backend stub for Python {PYTHON_VERSION}" in reason


def test_a_custom_configuration_is_taken_where_there_is_one() -> None:
    models = {model.path.name: model for model in read_repository(SHIPPED, "dali")}
    assert models["preprocess_dali"].backend == "dali"
    assert not models["preprocess_dali"].is_optional
    assert models["preprocess"].backend == "endcap_preprocess"


def test_of_a_broken_config_what_stands_before_the_break_counts(tmp_path: Path) -> None:
    text = "backend: 'python' max_batch_size: 4 instance_group [ { count: 2 }, { count: 3 } ] "
    inputs = 'input { name: "x" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 6 ] } } '
    write_model(tmp_path, "model", text + inputs + 'platform: "onnxruntime_onnx"')
    whole = read_model_folder(tmp_path / "model")
    assert (whole.backend, whole.platform, whole.instances) == ("python", "onnxruntime_onnx", 5)
    assert whole.tensor_bytes == 4 * 2 * 3 * 4
    for rest in ('output { name: "y', "output { dims: [ 1 ] ", "output [ } ", "output {" * 5000):
        written = text + inputs + rest + 'platform: "onnxruntime_onnx"'
        (tmp_path / "model" / "config.pbtxt").write_text(written)
        broken = read_model_folder(tmp_path / "model")
        assert (broken.backend, broken.platform, broken.instances) == ("python", "", 5)
        assert broken.tensor_bytes == 4 * 2 * 3 * 4


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
    assert model.needed_backend == backend
