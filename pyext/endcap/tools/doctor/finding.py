"""Findings of checks, and the texts from which reports and documentation are made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path

from endcap._pip_commands import (
    install_command,
    install_elsewhere_command,
    reinstall_command,
)


class PipCommand:
    """The field of a remedy that is a command of pip: `{install:dali --upgrade}`, `{reinstall}`.

    What follows the colon are the arguments of the function that makes the command.
    """

    def __init__(self, make_command: Callable[..., str]) -> None:
        """Take the function."""
        self._make_command = make_command

    def __format__(self, arguments: str) -> str:
        """Return the command."""
        return self._make_command(*arguments.split())


class Severity(str, Enum):
    """How bad a finding is, from the mildest to the worst."""

    OK = "ok"
    NOTE = "note"  # something optional is missing
    WARNING = "warning"  # works with restrictions
    ERROR = "error"  # serving fails, or gives wrong results

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
    """The result of one check; `problem` and `remedy` are messages, None without a problem."""

    name: str
    group: Group
    title: str
    severity: Severity
    found: str
    problem: str | None = None
    remedy: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the object that `endcap doctor --json` prints."""
        return {
            key: value.value if isinstance(value, Enum) else value
            for key, value in asdict(self).items()
        }


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem that a check can report.

    Attributes:
        when: The condition, for the documentation.
        remedy: Command or advice. The check fills in names in braces; `install`, `reinstall` and
            `install_elsewhere` are always there, see PipCommand.
    """

    when: str
    severity: Severity
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Topic:
    """The name and texts of a check, and the problems that it can report."""

    name: str
    group: Group
    title: str
    meaning: str
    problems: Mapping[str, Problem] = field(default_factory=dict)

    def ok(self, found: str) -> Finding:
        """Return a finding without a problem."""
        return self._finding(Severity.OK, found)

    def note(self, found: str) -> Finding:
        """Return a note without a remedy."""
        return self._finding(Severity.NOTE, found)

    def skipped(self, reason: str) -> Finding:
        """Return a note that the check was skipped, because of another finding."""
        return self.note(f"not checked: {reason}")

    def problem(
        self,
        key: str,
        found: str,
        message: str,
        *,
        at_most: Severity = Severity.ERROR,
        **fields: str | Path | Sequence[Path],
    ) -> Finding:
        """Return a finding with one of `problems`.

        Args:
            key: The key in `problems`.
            found: The state of what was checked.
            message: The error message, without its end mark.
            at_most: A limit of the severity, where nothing depends on what was checked.
            fields: The names in braces of the remedy; paths are quoted for a shell.
        """
        problem = self.problems[key]
        severity = min(problem.severity, at_most, key=lambda each: each.rank)
        values: dict[str, object] = {
            "install": PipCommand(install_command),
            "install_elsewhere": PipCommand(install_elsewhere_command),
            "reinstall": PipCommand(reinstall_command),
        }
        values |= {name: _format_field(each) for name, each in fields.items()}
        remedy = problem.remedy.format_map(values)
        return self._finding(severity, found, message, remedy)

    def _finding(
        self,
        severity: Severity,
        found: str,
        problem: str | None = None,
        remedy: str | None = None,
    ) -> Finding:
        return Finding(
            name=self.name,
            group=self.group,
            title=self.title,
            severity=severity,
            found=found,
            problem=problem,
            remedy=remedy,
        )


def _format_field(field: str | Path | Sequence[Path]) -> str:
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
