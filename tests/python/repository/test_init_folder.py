"""endcap init, how the folder comes into being: whole or not at all, and the one that is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import family_networks as families
import onnx
import pytest
from init_runs import COMMON, files, init, written


def test_external_weights_come_along(tmp_path: Path) -> None:
    model = onnx.load(str(families.yolov8().write(tmp_path / "inside.onnx")))
    path = tmp_path / "model.onnx"
    onnx.save(
        model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=100
    )
    assert init(path).exit_code == 0
    copied = tmp_path / "models" / "detector" / "1" / "weights.bin"
    assert copied.read_bytes() == (tmp_path / "weights.bin").read_bytes()


@pytest.mark.parametrize("is_there", [False, True])
def test_no_half_folder_is_ever_seen(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the largest files are copied, the last things, no model is where it will be."""
    model = families.yolov8().write(tmp_path / "model.onnx")
    models = tmp_path / "models"
    if is_there:
        models.mkdir()
    seen: list[list[str]] = []
    copy = shutil.copyfile

    def look_and_copy(source: Path, target: Path) -> None:
        folders = list(models.glob("*")) if models.is_dir() else []
        seen.append([each.name for each in folders if not each.name.startswith(".")])
        copy(source, target)

    monkeypatch.setattr("shutil.copyfile", look_and_copy)
    assert init(model).exit_code == 0
    assert seen == [[]]
    assert [each.name for each in (tmp_path, models) if list(each.glob(".*"))] == []


def test_a_folder_that_is_there_stays_the_same_one(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    before = models.stat().st_ino
    assert files(written(tmp_path, families.yolov8())) >= COMMON
    assert models.stat().st_ino == before


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
