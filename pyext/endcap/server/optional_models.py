"""Models that a server may do without: those with a DALI pipeline, where DALI cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from endcap.server.dali_operators import find_operators
from endcap.server.errors import ServerError
from endcap.server.repository import ModelFolder


@dataclass(frozen=True)
class LeftOut:
    """Models that are not served, and the sentence that says why."""

    models: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        are = "is" if len(self.models) == 1 else "are"
        return f"{', '.join(self.models)} {are} left out: {self.reason}"


def leave_out(models: Sequence[ModelFolder]) -> tuple[list[ModelFolder], LeftOut | None]:
    """Returns the models that can be served, and what is left out of them, if anything.

    Where DALI cannot be used that is every model whose config says `optional`, and the ensembles
    that call one.
    """
    absent = {model.path.name for model in models if model.is_optional}
    reason = why_no_dali() if absent else None
    if reason is None:
        return [*models], None
    absent = _with_callers(absent, models)
    kept = [model for model in models if model.path.name not in absent]
    return kept, LeftOut(tuple(sorted(absent)), reason)


def why_no_dali() -> str | None:
    """Returns why endcap's DALI operators cannot be loaded by this Python; None where they can."""
    try:
        find_operators()
    except ServerError as error:
        return str(error)
    return None


def _with_callers(absent: set[str], models: Iterable[ModelFolder]) -> set[str]:
    callers = {m.path.name for m in models if absent & {*m.steps}} - absent
    return _with_callers(absent | callers, models) if callers else absent
