"""Repositories in folders whose names need quotes in a shell."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest

from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer
from tests.support.echo_model import ECHO, TENSORS, write_echo_model, write_model

SETTINGS = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0), ready_timeout_s=20)
IN_PYTHON = 'backend: "python"' + TENSORS


@pytest.mark.parametrize(
    "folder", ["of many models", "sh$(touch INJECTED)", "it's; touch INJECTED", "größer"]
)
def test_a_repository_with_any_name_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_echo_model(Path(folder))
    with TritonServer(folder, SETTINGS) as server:
        assert [(m.name, m.version) for m in server.models()] == [("echo", "1")]
        assert any(folder in line for line in server.log_lines())
    assert [path.name for path in tmp_path.iterdir()] == [folder]
    assert (tmp_path / folder / "echo" / "1" / "model.py").is_file()


def test_a_failed_start_names_the_files_where_they_are(tmp_path: Path) -> None:
    code = (
        "class TritonPythonModel:\n    def initialize(self, args):\n        raise ValueError(5)\n"
    )
    repository = write_model(tmp_path / "my models", "broken", IN_PYTHON, code)
    log_file = tmp_path / "server.log"
    settings = dataclasses.replace(SETTINGS, log_file=log_file)
    with pytest.raises(ServerError) as caught:
        TritonServer(repository, settings).start()
    assert f"(at {repository}/broken/1/model.py(3): initialize)" in str(caught.value)
    assert f"{repository}/broken/1/model.py(3)" in log_file.read_text()


def test_a_python_models_own_name_is_refused(tmp_path: Path) -> None:
    # Triton knows a model by its folder's name, so no link helps.
    write_model(tmp_path, "my $(model)", IN_PYTHON, ECHO)
    with pytest.raises(
        ServerError, match=r"model 'my \$\(model\)' has a name .*letters, digits and \._\+-"
    ):
        TritonServer(tmp_path, SETTINGS).start()


@pytest.mark.parametrize("given", ['"m.py"', "'m.py' # the model", '"m.py" parameters: {}'])
def test_a_models_file_may_have_another_name(tmp_path: Path, given: str) -> None:
    write_model(tmp_path, "echo", f"backend: 'python' default_model_filename: {given}\n{TENSORS}")
    (tmp_path / "echo" / "1" / "m.py").write_text(ECHO)
    with TritonServer(tmp_path, SETTINGS) as server:
        assert [model.name for model in server.models()] == ["echo"]


def test_a_model_without_python_may_have_any_name(tmp_path: Path) -> None:
    write_model(tmp_path, "my model", 'backend: "endcap_preprocess" max_batch_size: 4')
    with TritonServer(tmp_path, SETTINGS) as server:
        assert [model.name for model in server.models()] == ["my model"]


def test_a_temporary_folder_that_the_shell_would_take_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "for a while"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(ServerError) as caught:
        TritonServer(write_echo_model(tmp_path / "models"), SETTINGS).start()
    assert f"temporary folder {folder} has a name" in str(caught.value)
    assert "set TMPDIR" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []
