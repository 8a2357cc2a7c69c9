"""Models that a server may do without, where DALI or a Python for them is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from endcap.server.backend_directory import needs_stub
from endcap.server.dali_operators import find_operators
from endcap.server.locate import ServerInstallation
from endcap.server.python_packages import PACKAGES_VARIABLE, check_python, more_packages
from endcap.server.python_stub import find_stub
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder


@dataclass(frozen=True)
class LeftOut:
    """Models that are not served, and the reason."""

    models: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        are = "is" if len(self.models) == 1 else "are"
        return f"{', '.join(self.models)} {are} left out: {self.reason}"


def leave_out(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> tuple[list[ModelFolder], LeftOut | None]:
    """Return the models that can be served, and what is left out of them, if anything.

    Left out are models whose config says `optional`, and the ensembles that call one: Python models
    where none can run, and models with a DALI pipeline where DALI cannot be used.
    """
    absent: set[str] = set()
    reasons: list[str] = []
    optional = [model for model in models if model.is_optional]
    for needing, why_not in (
        ([model for model in optional if model.uses_server_python], why_no_python),
        ([model for model in optional if model.may_need_dali], why_no_dali),
    ):
        names = {model.path.name for model in needing} - absent
        reason = why_not(installation) if names else None
        if reason is not None:
            absent |= names
            reasons.append(reason)
    if not absent:
        return [*models], None
    absent = _with_callers(absent, models)
    kept = [model for model in models if model.path.name not in absent]
    return kept, LeftOut(tuple(sorted(absent)), "; ".join(reasons))


def why_no_python(installation: ServerInstallation) -> str | None:
    """Return why no Python model can run in the running Python, None where one can.

    This is known from the versions alone: a server without a stub for the running Python, or with
    stubs that need a NumPy which this Python does not have.
    """
    if not needs_stub(installation) or installation.stubs_dir is None:
        return None
    try:
        if installation.is_private:
            check_python()
        find_stub(installation.stubs_dir)
    except ServerError as error:
        return str(error)
    return None


def why_no_dali(installation: ServerInstallation) -> str | None:
    """Return why a server's Python models cannot load endcap's DALI operators, None if they can."""
    reason = why_no_private_dali(installation)
    if reason is not None:
        return reason
    try:
        find_operators()
    except ServerError as error:
        return str(error)
    return None


def why_no_private_dali(installation: ServerInstallation) -> str | None:
    """Return why the environment of Python models on endcap's own server has no DALI.

    None is returned where it has, and for other servers.
    """
    if not installation.is_private or any("dali" in each for each in more_packages()):
        return None
    return (
        "Python models of endcap's own server have no DALI; install it for them with "
        f"`export {PACKAGES_VARIABLE}=nvidia-dali-cuda130`"
    )


def _with_callers(absent: set[str], models: Iterable[ModelFolder]) -> set[str]:
    callers = {m.path.name for m in models if absent & {*m.steps}} - absent
    return _with_callers(absent | callers, models) if callers else absent
