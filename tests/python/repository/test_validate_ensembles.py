"""`endcap validate` on ensembles and cascades."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.repository.validation import Finding, Severity, validate_repository
from tests.support.echo_ensembles import LOADED, REFUSED, UNBATCHED, ensemble, write_called
from tests.support.echo_model import TENSORS, write_model


def findings(tmp_path: Path, config: str, name: str = "ensemble") -> list[Finding]:
    write_called(tmp_path)
    write_model(tmp_path, name, config)
    return list(validate_repository(tmp_path).findings)


def test_what_a_server_loads(tmp_path: Path) -> None:
    for name, config in LOADED.items():
        write_model(tmp_path, name, config)
    write_called(tmp_path)
    assert validate_repository(tmp_path).findings == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_server_refuses(tmp_path: Path, name: str) -> None:
    config, line, says = REFUSED[name]
    (finding,) = findings(tmp_path, config, name)
    assert (finding.severity, finding.line) == ("error", line)
    assert finding.problem.startswith(says)


def test_tensors_that_only_fit_without_their_batch_dimension(tmp_path: Path) -> None:
    reported = findings(tmp_path, ensemble(("echo", "x", "y"), tensors=UNBATCHED))
    assert [(f.severity, f.line) for f in reported] == [("warning", 3), ("warning", 4)]
    assert reported[0].problem.startswith(
        "x has a batch dimension at step echo and none at the ensemble"
    )


def test_no_finding_on_a_step_whose_model_cannot_be_read(tmp_path: Path) -> None:
    write_model(tmp_path, "broken", "max_batch_size: many")
    (finding,) = findings(tmp_path, ensemble(("broken", "x", "y")))
    assert finding.model == "broken"


def test_no_finding_on_tensors_that_a_backend_completes(tmp_path: Path) -> None:
    write_model(tmp_path, "engine", 'backend: "tensorrt" max_batch_size: 4')
    (tmp_path / "engine" / "1" / "model.plan").touch()
    assert findings(tmp_path, ensemble(("engine", "x", "y"))) == []


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ('[\\"a, b\\", \\"c\\"]', 2),
        ("a, b", 2),
        ('[\\"a\\"]', 1),
        ("[1, 2]", None),
        ("[a, b", None),
    ],
)
def test_labels(tmp_path: Path, labels: str, count: int | None) -> None:
    postprocess = """backend: "endcap_postprocess"
        parameters { key: "head" value { string_value: "yolov8" } }
        parameters { key: "num_classes" value { string_value: "2" } }"""
    write_model(tmp_path, "postprocess", postprocess)
    config = (
        'platform: "ensemble"\n'
        'input { name: "head" data_type: TYPE_FP32 dims: [ 6, -1 ] }\n'
        'output { name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        'ensemble_scheduling { step { model_name: "postprocess" model_version: -1\n'
        'input_map { key: "head" value: "head" }\n'
        'output_map { key: "num_detections" value: "num_detections" } } }\n'
        f'parameters {{ key: "labels" value {{ string_value: "{labels}" }} }}\n'
    )
    reported = findings(tmp_path, config)
    assert [finding.severity for finding in reported] == ([] if count == 2 else ["warning"])
    says = "not a JSON list of texts" if count is None else f"labels has {count} name"
    assert all(says in finding.problem and finding.line == 7 for finding in reported)


def test_tensors_of_a_step_are_those_that_are_completed(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        "preprocess",
        'backend: "endcap_preprocess" max_batch_size: 4\n'
        'output { name: "images" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }\n'
        'parameters { key: "size" value { string_value: "64" } }',
    )
    tensors = TENSORS.replace("FP32 dims: [ 1 ] } ]\noutput", "STRING dims: [ 1 ] } ]\noutput")
    config = ensemble(("preprocess", "x", "y"), tensors=tensors)
    config = config.replace('key: "x"', 'key: "encoded"').replace('key: "y"', 'key: "images"')
    (finding,) = findings(tmp_path, config)
    assert finding.problem == (
        "the ensemble gives y as FP32 [1], and preprocess gives images FP32 [3, 64, 64]"
    )


CASCADE = """backend: "endcap_bls"
max_batch_size: 8
parameters {{ key: "labels" value {{ string_value: "a,b" }} }}
parameters {{
  key: "{name}"
  value {{ string_value: "{value}" }}
}}
"""
PARAMETER_LINE = 4  # of the parameter in question


@pytest.mark.parametrize(
    ("name", "value", "severity", "says"),
    [
        ("classifiers", "0=rois+kinds, *=rois+kinds", None, ""),
        ("classifier", "*=rois+kinds", Severity.ERROR, "'classifier' is not a parameter of this"),
        ("classifiers", "0=rois", Severity.ERROR, "classifiers has the entry '0=rois'"),
        ("detect_model", "cascade", Severity.ERROR, "detect_model names 'cascade', which is this"),
        ("detect_model", "detct", Severity.WARNING, "detect_model names model detct, which is not"),
        ("classifiers", "0=rois+kids", Severity.WARNING, "classifiers names model kids, which is"),
    ],
)
def test_a_cascade(
    tmp_path: Path, name: str, value: str, severity: Severity | None, says: str
) -> None:
    for model in ("detect", "rois", "kinds"):
        write_model(tmp_path, model, 'backend: "other" max_batch_size: 8\n')
    write_model(tmp_path, "cascade", CASCADE.format(name=name, value=value))
    found = [f for f in validate_repository(tmp_path).findings if f.model == "cascade"]
    assert [(f.severity, f.line) for f in found] == (
        [(severity, PARAMETER_LINE)] if severity else []
    )
    assert all(f.problem.startswith(says) and f.remedy for f in found)
