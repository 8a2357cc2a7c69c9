"""`endcap validate` on models that read videos."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.repository.validation import Severity, validate_repository
from tests.support.damage import copy_model

PREFIXES = 'key: "url_prefixes"\n  value {{ string_value: "{}" }}'
PIPELINE = ("detect", "preprocess", "detector", "postprocess")


def write(
    repository: Path, old: str = "", new: str = "", *, models: tuple[str, ...] = PIPELINE
) -> None:
    for model in models:
        copy_model(model, repository)
    config = copy_model("video", repository) / "config.pbtxt"
    text = config.read_text()
    assert text.count(old) == 1 or not old
    config.write_text(text.replace(old, new) if old else text)


def test_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path)
    assert not validate_repository(tmp_path).findings


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, models=())
    (finding,) = validate_repository(tmp_path).findings
    assert finding.severity is Severity.WARNING
    assert finding.problem == "model names detect, which is not in this repository"


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ('string_value: "8"', 'string_value: "0"', "max_videos is 0", "give 1 or more"),
        (
            PREFIXES.format(""),
            PREFIXES.format("file:///a"),
            "entry 1 of url_prefixes",
            "with a sch",
        ),
        (
            "model_transaction_policy { decoupled: true }",
            "",
            "a model of videos that is not decoupled",
            "add model_transaction_policy { decoupled: true }",
        ),
    ],
)
def test_what_a_server_refuses(
    tmp_path: Path, old: str, new: str, problem: str, remedy: str
) -> None:
    write(tmp_path, old, new)
    (finding,) = validate_repository(tmp_path).findings
    assert finding.severity is Severity.ERROR
    assert problem in finding.problem
    assert remedy in f"{finding.problem}; {finding.remedy}"
