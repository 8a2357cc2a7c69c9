"""`endcap doctor --start`: the server in earnest, with one picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from damage import copy_model
from doctor_world import World, copied_server, doctor
from echo_model import ECHO, TENSORS, write_echo_model, write_model

from endcap.cli.files import find_repository


def test_start_sends_a_sample(tmp_path: Path) -> None:
    report = doctor("--start", "--repository", find_repository())
    found = report.findings["start"]["found"]
    assert report.findings["start"]["severity"] == "ok", report.findings["start"]
    assert found.startswith("ready after ")
    assert "detections in shapes_" in found
    assert " 0 detections" not in found


@pytest.mark.slow
def test_start_in_an_environment_with_spaces_in_its_path(tmp_path: Path) -> None:
    world = World(tmp_path / "my environment")
    report = world.doctor("--start", "--tritonserver", copied_server(tmp_path / "my server"))
    assert report.findings["start"]["severity"] == "ok", report.findings["start"]
    assert report.errors == set()


def test_start_reports_why_a_server_does_not_start(tmp_path: Path) -> None:
    code = ECHO + "\n    def initialize(self, args):\n        raise OSError('no such camera')\n"
    repository = write_model(tmp_path / "my models", "echo", 'backend: "python"' + TENSORS, code)
    report = doctor("--start", "--repository", repository)
    report.expect(
        "start",
        "error",
        "failed to load 'echo'",
        "no such camera",
        f"endcap serve '{repository}' --verbose",
    )
    assert report.errors == {"start"}


def test_start_sends_nothing_to_an_unknown_ensemble(tmp_path: Path) -> None:
    report = doctor("--start", "--repository", write_echo_model(tmp_path))
    assert report.findings["start"]["found"].endswith(
        "no request sent: no model 'detect', and no only ensemble"
    )
    assert report.findings["start"]["severity"] == "ok"


def test_start_takes_the_only_ensemble_of_any_name(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    for model in ("preprocess", "detector", "postprocess"):
        copy_model(model, repository)
    copy_model("detect", repository, name="find_shapes")
    report = doctor("--start", "--repository", repository)
    assert "detections in shapes_" in report.findings["start"]["found"]


@pytest.mark.slow
def test_start_reports_an_ensemble_whose_steps_do_not_fit(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(find_repository(), repository)
    config = repository / "postprocess" / "config.pbtxt"
    text = config.read_text()
    for before, after in (("dims: [ 10, 8400 ]", "dims: [ 84, 8400 ]"), ('"6"', '"80"')):
        assert before in text
        text = text.replace(before, after)
    config.write_text(text)
    report = doctor("--start", "--repository", repository)
    report.expect("start", "error", "tensor head: inconsistent shape", "[-1,84,8400]")
