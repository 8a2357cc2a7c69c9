"""A value of a configuration, and why it is this one."""

from __future__ import annotations

from dataclasses import dataclass

AS_GIVEN = "as given"


@dataclass(frozen=True)
class Decision:
    """A value that was found out or given, and why it is this one."""

    value: str
    reason: str

    @property
    def is_given(self) -> bool:
        """Whether the user said so."""
        return self.reason == AS_GIVEN
