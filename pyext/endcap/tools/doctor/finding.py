"""What a check finds, and the texts from which both its answer and the documentation are made."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path


class Severity(str, Enum):
    """How bad a finding is, from the mildest to the worst."""

    OK = "ok"
    NOTE = "note"  # something is not there that one can do without
    WARNING = "warning"  # works, but not for everything
    ERROR = "error"  # serving fails, or answers wrongly

    @property
    def rank(self) -> int:
        """0 for OK, 3 for ERROR."""
        return list(Severity).index(self)


class Group(str, Enum):
    """The headings of the report, in its order."""

    ENDCAP = "endcap"
    SERVER = "server"
    REPOSITORY = "repository"
    PYTHON_MODELS = "Python models"
    SYSTEM = "system"
    GPU = "GPU"
    CLIENTS = "clients"
    START = "start"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found; `problem` and `remedy` are messages, None where all is well.

    Attributes:
        details: Lines that the report shows with `--verbose` only.
    """

    name: str
    group: Group
    title: str
    severity: Severity
    found: str
    problem: str | None = None
    remedy: str | None = None
    details: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the object that `endcap doctor --json` prints."""
        return {
            key: value.value if isinstance(value, Enum) else value
            for key, value in asdict(self).items()
        }


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that can be wrong.

    Attributes:
        when: The case, for the documentation.
        remedy: What to do; names in braces are filled in by the check.
    """

    when: str
    severity: Severity
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Topic:
    """What one check is about: its name, its texts, and all that it can complain of."""

    name: str
    group: Group
    title: str
    meaning: str
    problems: Mapping[str, Problem] = field(default_factory=dict)

    def fine(self, found: str) -> Finding:
        """All is well."""
        return self._finding(Severity.OK, found)

    def note(self, found: str) -> Finding:
        """Worth knowing, and nothing to do about it."""
        return self._finding(Severity.NOTE, found)

    def not_looked_at(self, reason: str) -> Finding:
        """Another finding makes this check pointless."""
        return self.note(f"not looked at: {reason}")

    def problem(
        self,
        key: str,
        found: str,
        message: str,
        *,
        at_most: Severity = Severity.ERROR,
        details: Iterable[str] = (),
        **fields: str | Path | Sequence[Path],
    ) -> Finding:
        """One of `problems`; `at_most` lowers its severity where nothing depends on it.

        Args:
            message: What is wrong here, without its end mark.
            fields: The names in braces of the remedy; paths are quoted as a shell needs it.
        """
        problem = self.problems[key]
        severity = min(problem.severity, at_most, key=lambda each: each.rank)
        remedy = problem.remedy.format_map({name: _written(each) for name, each in fields.items()})
        return self._finding(severity, found, message, remedy, tuple(details))

    def _finding(
        self,
        severity: Severity,
        found: str,
        problem: str | None = None,
        remedy: str | None = None,
        details: tuple[str, ...] = (),
    ) -> Finding:
        return Finding(
            name=self.name,
            group=self.group,
            title=self.title,
            severity=severity,
            found=found,
            problem=problem,
            remedy=remedy,
            details=details,
        )


def _written(field: str | Path | Sequence[Path]) -> str:
    if isinstance(field, str):
        return field
    return shlex.join(map(str, [field] if isinstance(field, Path) else field))


def reason_of(error: Exception) -> str:
    """Return an error's message without the advice that follows its last semicolon."""
    reason, _, advice = str(error).rpartition("; ")
    return reason or advice


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the worst severity among `findings`, OK where there are none."""
    return max((each.severity for each in findings), key=lambda s: s.rank, default=Severity.OK)
