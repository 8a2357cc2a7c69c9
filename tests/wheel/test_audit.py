"""The audit of installed packages: what fails it, what is accepted, what it says offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import audit  # noqa: E402

# As `pip-audit --format json` writes it.
REPORT = {
    "dependencies": [
        {
            "name": "jinja2",
            "version": "2.4.1",
            "vulns": [
                {
                    "id": "PYSEC-2019-217",
                    "fix_versions": ["2.10.1"],
                    "aliases": [],
                    "description": "",
                },
                {"id": "PYSEC-2021-66", "fix_versions": [], "aliases": [], "description": ""},
            ],
        },
        {"name": "numpy", "version": "1.26.4", "vulns": []},
        {"name": "endcap", "skip_reason": "distribution marked as editable"},
    ],
    "fixes": [],
}


def test_a_vulnerability_is_told_with_its_fix() -> None:
    findings = audit.read_findings(json.dumps(REPORT))
    assert (findings.audited, findings.skipped) == (2, ["endcap"])
    assert audit.judge(findings, []) == [
        "jinja2 2.4.1: PYSEC-2019-217, fixed in 2.10.1",
        "jinja2 2.4.1: PYSEC-2021-66, fixed in no release",
    ]


def test_what_is_accepted_is_not_told_and_belongs_to_one_package() -> None:
    findings = audit.read_findings(json.dumps(REPORT))
    accepted = [("jinja2", "PYSEC-2019-217"), ("numpy", "PYSEC-2021-66")]
    assert audit.judge(findings, accepted) == ["jinja2 2.4.1: PYSEC-2021-66, fixed in no release"]


def test_an_accepted_vulnerability_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "accepted.json"
    entry = {"package": "jinja2", "id": "PYSEC-2019-217", "reason": "no template of a user's"}
    file.write_text(json.dumps([entry]))
    assert audit.read_accepted(file) == {("jinja2", "PYSEC-2019-217"): entry["reason"]}
    file.write_text(json.dumps([{**entry, "reason": ""}]))
    with pytest.raises(audit.AuditError, match="needs package, id and reason"):
        audit.read_accepted(file)


def test_the_accepted_vulnerabilities_of_this_tree_have_reasons() -> None:
    audit.read_accepted(audit.ACCEPTED)


@pytest.mark.parametrize(("require", "status"), [("0", 0), ("1", 1)])
def test_an_audit_that_cannot_be_done_says_so(tmp_path: Path, require: str, status: int) -> None:
    command = [sys.executable, audit.__file__, str(tmp_path)]
    environment = {**os.environ, "ENDCAP_REQUIRE_AUDIT": require}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == status
    assert f"audit of {tmp_path}: NOT DONE, " in done.stderr
    assert done.stdout == ""
