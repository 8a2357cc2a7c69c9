"""`endcap validate` on models of the backend endcap_track."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.repository.validation import Severity, validate_repository

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository" / "track" / "config.pbtxt"


def write(repository: Path, old: str = "", new: str = "") -> None:
    config = SHIPPED.read_text()
    assert old in config
    (repository / "track" / "1").mkdir(parents=True)
    (repository / "track" / "config.pbtxt").write_text(
        config.replace(old, new, 1) if old else config
    )


def test_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path)
    assert not validate_repository(tmp_path).findings


def test_sequences_that_would_wait(tmp_path: Path) -> None:
    write(tmp_path, "max_candidate_sequences: 1024", "max_candidate_sequences: 64")
    (finding,) = validate_repository(tmp_path).findings
    assert finding.severity is Severity.WARNING
    assert finding.problem == "max_candidate_sequences is 64, and max_sequences 1000"


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ('"max_lost_frames"', '"max_lost_frame"', "'max_lost_frame' is not a", "did you mean"),
        ('string_value: "30"', 'string_value: "-1"', "max_lost_frames", "0 to 1000000"),
        ('string_value: "1000"', 'string_value: "0"', "max_sequences is '0'", "1 or more"),
        ('string_value: "1000"', 'string_value: "many"', "max_sequences", ""),
        (
            "sequence_batching {\n  max_sequence_idle_microseconds: 10000000\n  oldest {\n"
            "    max_candidate_sequences: 1024\n  }\n}\n",
            "",
            "the frames of a sequence have to come",
            "add sequence_batching",
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
    lines = (tmp_path / "track" / "config.pbtxt").read_text().splitlines()
    named = {"max_lost": "max_lost_frame", "max_seq": "max_sequences"}
    for start, name in named.items():
        if problem.lstrip("'").startswith(start):
            assert finding.line is not None
            assert name in "".join(lines[finding.line - 2 : finding.line + 2])
