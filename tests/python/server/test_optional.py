"""Which models a server leaves out where DALI or Python models cannot be used."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from damage import SHIPPED, copy_model
from doctor_world import copied_server
from echo_model import write_model

from endcap.server import locate_server, private_server
from endcap.server import models as server_models
from endcap.server.models import (
    LeftOut,
    choose_models,
    leave_out,
    why_no_private_dali,
    why_no_pyav,
    why_no_python,
)
from endcap.server.private_server import EXECUTABLE, private_server_folder
from endcap.server.python_stub import PYTHON_VERSION
from endcap.triton.model_folder import read_model_folder, read_repository

REASON = "DALI is not installed; install it"


def names_left(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> tuple[set[str], object]:
    monkeypatch.setattr(server_models, "why_no_dali", lambda server: reason)
    models = read_repository(SHIPPED)
    kept, left_out = leave_out(models, locate_server())
    return {m.path.name for m in models} - {m.path.name for m in kept}, left_out


def test_an_optional_model_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    absent, left_out = names_left(monkeypatch, REASON)
    assert absent == {"preprocess_dali"}
    assert str(left_out) == f"preprocess_dali is left out: {REASON}"


def test_the_callers_of_an_optional_model_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_models, "why_no_dali", lambda server: REASON)
    copy_model("preprocess_dali", tmp_path)
    config = copy_model("detect", tmp_path, name="caller") / "config.pbtxt"
    config.write_text(config.read_text().replace('"preprocess"', '"preprocess_dali"'))
    kept, left_out = leave_out(read_repository(tmp_path), locate_server())
    assert kept == []
    assert left_out == LeftOut(("caller", "preprocess_dali"), REASON)


def test_with_dali_all_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_left(monkeypatch, None) == (set(), None)


def test_dali_is_not_looked_for_without_an_optional_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_models, "why_no_dali", lambda server: pytest.fail("it was"))
    models = read_repository(write_model(tmp_path, "plain", 'backend: "python"'))
    assert leave_out(models, locate_server()) == (models, None)


@pytest.fixture
def without_numpy_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """This Python is newer than the newest for which there is a NumPy below 2."""
    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))


@pytest.mark.usefixtures("without_numpy_1")
def test_where_no_python_model_can_run_the_shipped_ones_are_left_out() -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    models = read_repository(SHIPPED)
    kept, left_out = leave_out(models, own)
    assert left_out is not None
    assert f"NumPy below 2, which Python {PYTHON_VERSION} does not have" in left_out.reason
    assert "DALI" not in left_out.reason  # they are left out already
    assert {"detect_bls", "preprocess_python", "preprocess_dali"} <= {*left_out.models}
    assert {m.path.name for m in models if m not in kept} == {*left_out.models}
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
    assert left_out is not None
    assert left_out.models == ("plain",)


def test_python_models_run_where_there_is_a_stub(tmp_path: Path) -> None:
    assert why_no_python(locate_server(copied_server(tmp_path))) is None
    folder = tmp_path / "pytriton" / "tritonserver" / "python_backend_stubs" / PYTHON_VERSION
    (folder / "triton_python_backend_stub").unlink()
    reason = why_no_python(locate_server(folder.parent.parent))
    assert reason is not None
    assert f"no Python-backend stub for Python {PYTHON_VERSION}" in reason


def test_endcaps_own_server_has_dali_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    monkeypatch.delenv("ENDCAP_SERVER_PACKAGES", raising=False)
    assert "`export ENDCAP_SERVER_PACKAGES=nvidia-dali-cuda130`" in str(why_no_private_dali(own))
    monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", "nvidia-dali-cuda130")
    assert why_no_private_dali(own) is None
    monkeypatch.delenv("ENDCAP_SERVER_PACKAGES")
    assert why_no_private_dali(locate_server()) is None  # in its Python there may be one


def test_endcaps_own_server_gets_the_dali_of_this_python_where_a_model_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dali = [f"nvidia-dali-cuda130=={importlib.metadata.version('nvidia-dali-cuda130')}"]
    monkeypatch.delenv("ENDCAP_SERVER_PACKAGES", raising=False)
    code = "from endcap.python_backend.preprocess_dali_stage import TritonPythonModel\n"
    optional = 'parameters { key: "optional" value { string_value: "true" } }'
    write_model(tmp_path, "plain", 'backend: "python"')
    write_model(tmp_path, "shipped", f'backend: "python" {optional}', code)
    plain = read_repository(tmp_path)
    write_model(tmp_path, "pipeline", 'backend: "python"', code)
    models = read_repository(tmp_path)
    more = {*private_server.requirements(models)} - {*private_server.requirements(plain)}
    assert more == {*dali}
    assert private_server.packages_folder(models) != private_server.packages_folder(plain)


def test_without_pyav_the_model_of_videos_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_models, "why_no_dali", lambda server: None)
    models = read_repository(SHIPPED)
    assert leave_out(models, locate_server()) == (models, None), "PyAV is installed here"
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "av" else find_spec(name)
    )
    kept, left_out = leave_out(models, locate_server())
    assert {m.path.name for m in models} - {m.path.name for m in kept} == {"video"}
    assert str(left_out).startswith("video is left out: PyAV is not installed; run `pip install")


def test_endcaps_own_server_has_pyav_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    for packages in (None, "avro", "nvidia-dali-cuda130"):
        monkeypatch.delenv("ENDCAP_SERVER_PACKAGES", raising=False)
        if packages is not None:
            monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", packages)
        assert "`export ENDCAP_SERVER_PACKAGES=av`" in str(why_no_pyav(own))
    for packages in ("av", "'av>=14' scipy"):
        monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", packages)
        assert why_no_pyav(own) is None


def test_a_custom_configuration_is_taken_where_there_is_one() -> None:
    models = {model.path.name: model for model in read_repository(SHIPPED, "dali")}
    assert models["preprocess_dali"].backend == "dali"
    assert not models["preprocess_dali"].is_optional
    assert models["preprocess"].backend == "endcap_preprocess"


@pytest.mark.parametrize(
    ("text", "optional"),
    [
        ('parameters { key: "optional" value { string_value: "true" } }', True),
        ('parameters [ { key: "optional", value: { string_value: "true" } } ]', True),
        ('parameters { key: "optional" value { string_value: "false" } }', False),
        ('# parameters { key: "optional" value { string_value: "true" } }', False),
        ("", False),
    ],
)
def test_what_a_config_says(tmp_path: Path, text: str, optional: bool) -> None:
    write_model(tmp_path, "model", text)
    assert read_model_folder(tmp_path / "model").is_optional is optional


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
