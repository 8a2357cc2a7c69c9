"""Checks and their findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from endcap.doctor.subject import Subject


class Severity(IntEnum):
    """How bad a finding is."""

    OK = 0
    NOTE = 1  # something optional is missing
    WARNING = 2  # works with restrictions
    ERROR = 3  # serving fails, or gives wrong results

    @property
    def label(self) -> str:
        """The word in reports."""
        return self.name.lower()


class Problem(Exception):  # noqa: N818
    """What a check found, and is not as it should be.

    Args:
        found: The state of what was checked.
        message: What is wrong, and after the last semicolon what to do; "" for a note of what
            cannot be checked.
        severity: NOTE, WARNING or ERROR.
    """

    def __init__(self, found: str, message: str = "", severity: Severity = Severity.ERROR) -> None:
        super().__init__(found, message, severity)
        self.found, self.message, self.severity = found, message, severity


class Skipped(Problem):
    """A check that cannot be made, because of another finding."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not checked: {reason}", severity=Severity.NOTE)


@dataclass(frozen=True)
class Check:
    """A check: `run` returns what it found, or raises Problem or an EndcapError."""

    name: str
    group: str
    title: str
    run: Callable[[Subject], str]

    @property
    def meaning(self) -> str:
        """What is checked, for the documentation: what follows the first line of its docstring."""
        return " ".join((self.run.__doc__ or "").split("\n\n", 1)[-1].split())


@dataclass(frozen=True)
class Finding:
    """The result of one check, with the message of a problem."""

    check: Check
    severity: Severity
    found: str
    message: str = ""

    @property
    def problem(self) -> str | None:
        """What is wrong, None where nothing is."""
        return drop_advice(self.message) or None

    @property
    def remedy(self) -> str | None:
        """What to do, None where nothing is known."""
        return self.message.rpartition("; ")[2] if "; " in self.message else None

    def to_json(self) -> dict[str, object]:
        """Return the object that `endcap doctor --json` prints."""
        return {
            **{name: getattr(self.check, name) for name in ("name", "group", "title")},
            "severity": self.severity.label,
            **{name: getattr(self, name) for name in ("found", "problem", "remedy")},
        }


def drop_advice(error: Exception | str) -> str:
    """Return a message without the advice that follows its last semicolon."""
    reason, _, advice = str(error).rpartition("; ")
    return reason or advice
