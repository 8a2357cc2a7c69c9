"""Which step of an ensemble is the network, and which file it serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from endcap.errors import ServerError, UnsupportedError
from endcap.triton.ensemble import find_network, read_ensemble

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The shipped configurations, with empty version folders."""
    for model in ("detect", "preprocess", "detector", "postprocess"):
        (tmp_path / model / "1").mkdir(parents=True)
        shutil.copyfile(SHIPPED / model / "config.pbtxt", tmp_path / model / "config.pbtxt")
    return tmp_path


def edit(repository: Path, model: str, old: str, new: str) -> None:
    config = repository / model / "config.pbtxt"
    text = config.read_text(encoding="utf-8")
    assert old in text
    config.write_text(text.replace(old, new), encoding="utf-8")


def test_the_shipped_network() -> None:
    network = find_network(read_ensemble(SHIPPED, "detect"))
    assert network.outputs == {"head": "head"}
    assert network.find_file() == SHIPPED / "detector" / "1" / "model.onnx"


def test_names_are_those_of_the_network(repository: Path) -> None:
    old = 'output_map { key: "head" value: "head" }'
    edit(repository, "detect", old, 'output_map { key: "output0" value: "head" }')
    assert find_network(read_ensemble(repository, "detect")).outputs == {"head": "output0"}


def test_the_newest_version_is_the_largest_number(repository: Path) -> None:
    for version in (2, 10):
        (repository / "detector" / str(version)).mkdir()
        (repository / "detector" / str(version) / "model.onnx").touch()
    (repository / "detector" / "notes").mkdir()
    network = find_network(read_ensemble(repository, "detect"))
    assert network.find_file() == repository / "detector" / "10" / "model.onnx"
    old = 'model_name: "detector"\n      model_version: -1'
    edit(repository, "detect", old, 'model_name: "detector"\n      model_version: 2')
    pinned = find_network(read_ensemble(repository, "detect"))
    assert pinned.find_file() == repository / "detector" / "2" / "model.onnx"


def test_the_configuration_may_name_the_file(repository: Path) -> None:
    (repository / "detector" / "1" / "yolo.onnx").touch()
    edit(repository, "detector", "max_batch_size: 64",
         'max_batch_size: 64\ndefault_model_filename: "yolo.onnx"')  # fmt: skip
    network = find_network(read_ensemble(repository, "detect"))
    assert network.find_file() == repository / "detector" / "1" / "yolo.onnx"


@pytest.mark.parametrize("versions", [("1",), ()])
def test_engine_is_not_read_as_onnx(repository: Path, versions: tuple[str, ...]) -> None:
    if not versions:
        (repository / "detector" / "1").rmdir()
    assert find_network(read_ensemble(repository, "detect")).find_file() is None


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [
        ("detect", 'input_map { key: "images" value: "images" }',
         'input_map { key: "images" value: "cleaned" }'),
        ("detect", 'output_map { key: "head" value: "head" }',
         'output_map { key: "head" value: "raw" }'),
        ("postprocess", "endcap_postprocess", "python"),
        ("preprocess", "endcap_preprocess", "dali"),
    ],
    ids=["step before", "step behind", "no postprocess", "no preprocess"],
)  # fmt: skip
def test_an_ensemble_of_other_steps_is_refused(
    repository: Path, model: str, old: str, new: str
) -> None:
    edit(repository, model, old, new)
    with pytest.raises(UnsupportedError, match="detect is not made of one step in"):
        find_network(read_ensemble(repository, "detect"))


def test_missing_model_is_reported(repository: Path) -> None:
    with pytest.raises(ServerError, match=r"classify/config\.pbtxt cannot be read"):
        read_ensemble(repository, "classify")
    shutil.rmtree(repository / "detector")
    assert find_network(read_ensemble(repository, "detect")).find_file() is None
