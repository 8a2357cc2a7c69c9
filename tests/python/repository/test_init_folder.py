"""endcap init, how the folder comes into being: whole or not at all, and the one that is there."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
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


@pytest.fixture(params=["renameat2", "mkdir and link"])
def each_move(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of a move; the kernel refuses an unknown flag as some file systems a known one."""
    if request.param != "renameat2":
        monkeypatch.setattr("endcap._system.written_folder._NO_REPLACE", 1 << 20)


@pytest.mark.usefixtures("each_move")
@pytest.mark.parametrize("is_there", [False, True])
def test_both_moves_bring_everything(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "models").mkdir()
    assert files(written(tmp_path, families.yolov8())) >= COMMON
    assert [path.name for path in tmp_path.rglob(".*")] == []


@pytest.mark.usefixtures("each_move")
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
    assert f"{models / name} has been made by somebody else" in done.stderr
    assert mine.read_text() == "mine"
    assert [path.name for path in models.iterdir()] == [name]  # and all else is taken back


@pytest.mark.usefixtures("each_move")
def test_a_folder_that_appears_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    models = tmp_path / "models"
    do_while_writing(monkeypatch, models.mkdir)
    done = init(model)
    assert done.exit_code == 2, done.output
    assert f"{models} has been made by somebody else" in done.stderr
    assert list(models.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "models"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_in_place_of_the_partial_folder_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Whoever may write to the folder may exchange what lies in it."""
    model = families.yolov8().write(tmp_path / "model.onnx")
    victim = tmp_path / "victim"
    for path in ("folder/data", "content/detector/data", "README.md", "secret"):
        (victim / path).parent.mkdir(parents=True, exist_ok=True)
        (victim / path).write_text("private")
    models = tmp_path / "models"
    if is_there:
        models.mkdir()
    base = models if is_there else tmp_path

    def exchange() -> None:
        (partial,) = base.glob(".*.partial")
        partial.rename(base / "moved away")
        partial.symlink_to(victim)

    do_while_writing(monkeypatch, exchange)
    before = files(victim)
    done = init(model)
    assert done.exit_code == 0, done.stderr
    assert files(victim) == before
    assert {(victim / path).read_text() for path in before} == {"private"}
    assert files(models) >= COMMON
    assert files(base / "moved away") == set()


KILLED = """
import os, shutil, signal, sys
shutil.copyfile = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
from endcap.cli.app import main
sys.argv[0] = "endcap"
main()
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path: Path, is_there: bool) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    models = tmp_path / "models"
    if is_there:
        models.mkdir()
    base = models if is_there else tmp_path
    not_ours = base.parent if is_there else base
    (not_ours / ".models.1.partial").mkdir()
    command = [sys.executable, "-c", KILLED, "init", str(model), "-o", str(models)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(base.glob(".endcap-*.partial"))) == 1
    again = init(model)
    assert again.exit_code == 0, again.stderr
    assert [path.name for path in tmp_path.rglob(".*")] == [".models.1.partial"]


def test_the_folder_may_look_like_markup(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    output = tmp_path / "x[b]y[v2]"
    done = init(model, output=output)
    assert done.exit_code == 0
    assert str(output) in done.stdout
