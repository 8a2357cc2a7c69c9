"""What is found in a repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path


class Severity(str, Enum):
    """How bad a finding is."""

    NOTE = "note"  # nothing is wrong with the repository
    WARNING = "warning"  # it loads, but is hardly meant
    ERROR = "error"  # a model does not load, or every request fails


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong: in which file and line, of which model, and what to do about it.

    Attributes:
        line: None where what is wrong stands in no line, such as a missing folder.
    """

    file: Path
    line: int | None
    severity: Severity
    model: str
    problem: str
    remedy: str

    def to_json(self) -> dict[str, str | int | None]:
        """Return the object that `endcap validate --json` prints."""
        return {
            "file": str(self.file),
            "line": self.line,
            "severity": self.severity.value,
            "model": self.model,
            "problem": self.problem,
            "remedy": self.remedy,
        }


@dataclass(frozen=True)
class Report:
    """All findings, by file and line, and how many models there are."""

    model_count: int
    findings: Sequence[Finding]

    def count(self, severity: Severity) -> int:
        """Return the number of findings of one severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def with_errors_for_warnings(self) -> Report:
        """Return the same report in which every warning is an error."""
        return Report(
            self.model_count,
            [
                replace(finding, severity=Severity.ERROR)
                if finding.severity is Severity.WARNING
                else finding
                for finding in self.findings
            ],
        )
