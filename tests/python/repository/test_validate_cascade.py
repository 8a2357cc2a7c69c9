"""What `endcap validate` finds in a cascade of backend endcap_bls."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.repository.validation import Severity, validate_repository

CONFIG = """backend: "endcap_bls"
max_batch_size: 8
parameters {{ key: "labels" value {{ string_value: "a,b" }} }}
parameters {{
  key: "{name}"
  value {{ string_value: "{value}" }}
}}
"""
LINE = 4  # of the parameter in question


def write_cascade(repository: Path, name: str, value: str) -> None:
    for model in ("detect", "rois", "kinds"):
        (repository / model / "1").mkdir(parents=True)
        (repository / model / "config.pbtxt").write_text('backend: "other" max_batch_size: 8\n')
    (repository / "cascade" / "1").mkdir(parents=True)
    (repository / "cascade" / "config.pbtxt").write_text(CONFIG.format(name=name, value=value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classifiers", "0=rois+kinds, *=rois+kinds"),
        ("classifiers", ""),
        ("max_in_flight", "3"),
        ("classify_threshold", "0.5"),
    ],
)
def test_a_cascade_that_is_right(tmp_path, name, value):
    write_cascade(tmp_path, name, value)
    assert not [each for each in validate_repository(tmp_path).findings if each.model == "cascade"]


@pytest.mark.parametrize(
    ("name", "value", "severity", "says"),
    [
        ("classifier", "*=rois+kinds", Severity.ERROR, "'classifier' is not a parameter of this"),
        ("classifiers", "0=rois", Severity.ERROR, "classifiers has the part '0=rois'"),
        ("classify_threshold", "2", Severity.ERROR, "classify_threshold is '2'"),
        ("max_in_flight", "0", Severity.ERROR, "max_in_flight is 0"),
        ("detect_model", "cascade", Severity.ERROR, "detect_model names 'cascade', which is this"),
        ("classifiers", "0=rois+cascade", Severity.ERROR, "classifiers names 'cascade', which is"),
        ("max_in_flight", "x", Severity.ERROR, "max_in_flight is 'x'"),
        ("detect_model", "detct", Severity.WARNING, "detect_model names model detct, which is not"),
        ("classifiers", "0=rois+kids", Severity.WARNING, "classifiers names model kids, which is"),
    ],
)
def test_one_that_is_not(tmp_path, name, value, severity, says):
    write_cascade(tmp_path, name, value)
    found = [each for each in validate_repository(tmp_path).findings if each.model == "cascade"]
    (finding,) = found
    assert finding.severity is severity
    assert finding.problem.startswith(says)
    assert finding.remedy
    assert finding.line == LINE
