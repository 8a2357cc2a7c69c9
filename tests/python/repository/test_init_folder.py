"""endcap init, how the folder comes into being: whole or not at all, and the one that is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import family_networks as families
from tests.support.init_runs import init


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path / "here")
    assert init(model, output=Path()).exit_code == 0
    assert "endcap serve here" in Path("README.md").read_text()


Step = Callable[[], object]


def do_while_writing(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    """Lets `step` happen while the network is copied, before anything is where it will be."""
    copy = shutil.copyfile

    def copy_and_step(source: Path, target: Path) -> None:
        copy(source, target)
        step()

    monkeypatch.setattr("shutil.copyfile", copy_and_step)


@pytest.mark.parametrize("name", ["README.md", "postprocess"])
def test_what_appears_in_the_folder_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    models = tmp_path / "models"
    models.mkdir()
    mine = models / "README.md" if name == "README.md" else models / name / "notes"

    def write_mine() -> None:
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")

    do_while_writing(monkeypatch, write_mine)
    done = init(model)
    assert done.exit_code == 2, done.output
    assert f"another process has created {models / name} meanwhile" in done.stderr
    assert mine.read_text() == "mine"
    assert [path.name for path in models.iterdir()] == [name]  # and all else is taken back


def test_the_folder_may_look_like_markup(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    output = tmp_path / "x[b]y[v2]"
    done = init(model, output=output)
    assert done.exit_code == 0
    assert str(output) in done.stdout
