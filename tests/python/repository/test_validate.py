"""endcap validate on damaged repositories: one finding, its line and its message."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.repository.validation import validate_repository
from tests.support.cli_runs import endcap
from tests.support.damage import Damage, copy_model
from tests.support.damaged_repositories import DAMAGES
from tests.support.doc_pages import ROOT, blocks
from tests.support.onnx_heads import write_one_box

MODELS = (
    *("preprocess", "preprocess_rois", "detector", "postprocess", "detect", "track"),
    *("preprocess_python", "detector_python", "postprocess_python", "preprocess_dali"),
)


def copy_of_shipped(folder: Path) -> Path:
    for model in MODELS:
        copy_model(model, folder)
    return folder


GUIDE = {block.caption: block.text for block in blocks(ROOT / "docs" / "triton.md")}
DETECTOR = "models/detector/config.pbtxt"
DETECTORS = [caption for caption in GUIDE if caption.endswith(("plan)", "onnx)", DETECTOR))]


def write_guide(tmp_path: Path, detector: str = DETECTOR) -> Path:
    """Writes the repository of docs/triton.md with one of its configurations of the detector."""
    for caption, text in [*GUIDE.items(), (DETECTOR, GUIDE[detector])]:
        if caption.startswith("models/"):
            model = tmp_path / "models" / caption.split("/")[1]
            (model / "1").mkdir(parents=True, exist_ok=True)
            (tmp_path / caption).write_text(text, encoding="utf-8")
    version = tmp_path / "models" / "detector" / "1"
    write_one_box(version / "model.onnx")
    (version / "model.plan").touch()
    return tmp_path / "models"


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_repository_of_the_guide_has_no_error(tmp_path: Path, detector: str) -> None:
    report = validate_repository(write_guide(tmp_path, detector))
    assert report.model_count == 4
    (finding,) = report.findings  # the guide writes down three names of the eighty
    assert finding.problem == "labels has 3 names, and num_classes of postprocess is 80"
    assert finding.severity == "warning"


def test_the_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_guide(tmp_path) / "postprocess" / "config.pbtxt"
    config.write_text(config.read_text().replace('"80"', '"81"'))
    result = endcap("validate", "models")
    assert result.exit_code == 1
    assert result.stdout == GUIDE["what endcap validate says of 81 classes"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_one_finding_in_the_damaged_line(tmp_path: Path, damage: Damage) -> None:
    repository = copy_of_shipped(tmp_path)
    folder = repository / damage.model
    damage.apply(folder)
    (finding,) = validate_repository(repository).findings
    assert finding.problem.startswith(damage.says.replace("FOLDER", str(folder)))
    assert (finding.severity.value, finding.model) == (damage.severity, damage.model)
    assert finding.remedy
    if damage.at is None:
        assert (finding.file, finding.line) == (folder, None)
    else:
        assert finding.file == folder / "config.pbtxt"
        assert finding.line is not None
        assert damage.at in finding.file.read_text().split("\n")[finding.line - 1]


def test_one_broken_model_hides_nothing_in_another(tmp_path: Path) -> None:
    repository = copy_of_shipped(tmp_path)
    names = ["unknown_field", "iou_threshold", "no_model_file", "larger_batch", "absent_model"]
    for name in names:
        DAMAGES[name].apply(repository / DAMAGES[name].model)
    (repository / "pictures").mkdir()
    findings = validate_repository(repository).findings
    expected = [
        DAMAGES[name].says.replace("FOLDER", str(repository / DAMAGES[name].model))
        for name in names
    ]
    for says in [*expected, "this is not a model, and Triton does not start next to such a folder"]:
        assert [f for f in findings if f.problem.startswith(says)], says
    assert len(findings) == len(names) + 1  # and nothing that follows from these


def test_all_bad_parameters_of_a_model_are_reported(tmp_path: Path) -> None:
    repository = copy_of_shipped(tmp_path)
    for name in ("unknown_parameter", "impossible_value", "unknown_preset"):
        DAMAGES[name].apply(repository / "preprocess")
    findings = validate_repository(repository).findings
    assert [finding.problem.split()[0] for finding in findings] == [
        "pad_value",
        "'sise'",
        "preset",
    ]
    assert sorted({finding.line for finding in findings}) == [f.line for f in findings]


def test_versions_that_are_not_loaded(tmp_path: Path) -> None:
    """Triton loads only the newest version by default."""
    folder = copy_of_shipped(tmp_path) / "detector_python"
    (folder / "1" / "model.py").rename(folder / "model.py")
    (folder / "1").rename(folder / "0")
    (folder / "2").mkdir()
    (folder / "model.py").rename(folder / "2" / "model.py")
    (finding,) = validate_repository(tmp_path).findings
    assert (finding.severity, finding.problem) == (
        "warning",
        f"the model needs {folder}/0/model.py, which is not there",
    )
    config = folder / "config.pbtxt"
    config.write_text(config.read_text() + "version_policy { all { } }\n")
    (finding,) = validate_repository(tmp_path).findings
    assert finding.severity == "error"


def test_what_triton_takes_besides(tmp_path: Path) -> None:
    """A model without a config.pbtxt, a text that is not UTF-8, a folder that names the backend."""
    copy_model("detector", tmp_path)
    (tmp_path / "detector" / "config.pbtxt").unlink()
    copy_model("preprocess", tmp_path)
    config = tmp_path / "preprocess" / "config.pbtxt"
    text = (
        config.read_text() + '# größer\nparameters { key: "threads" value { string_value: "0" } }'
    )
    config.write_bytes(text.encode("latin-1"))
    (tmp_path / "other.endcap_preprocess" / "1").mkdir(parents=True)
    report = validate_repository(tmp_path)
    assert (report.model_count, report.findings) == (3, [])
