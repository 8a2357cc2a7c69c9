"""Models with a DALI pipeline: whether the Python that runs them has DALI and the operators."""

from __future__ import annotations

from endcap.server.dali_operators import find_operators
from endcap.server.optional_models import why_no_private_dali
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

DALI_MODELS = Topic(
    name="dali_models",
    group=Group.PYTHON_MODELS,
    title="DALI pipelines",
    meaning="Python models that run a DALI pipeline of endcap's find DALI and endcap's operators "
    "for it. Those with the parameter `optional`, such as the shipped `preprocess_dali`, are not "
    "looked at: `endcap serve` leaves them out where they cannot run.",
    problems={
        "no_operators": Problem(
            when="DALI is not installed or cannot be used, or the operators are not built for it.",
            severity=Severity.ERROR,
            remedy="`pip install 'endcap[dali]'`, then `endcap dali build`; `endcap dali info` "
            "shows what is there",
        ),
    },
)


def check_dali_models(subject: Subject) -> Finding:
    """Load the operators in a process of its own, where a model needs them."""
    needing = [m.path.name for m in subject.models if m.runs_dali and not m.is_optional]
    if not needing:
        return DALI_MODELS.fine("no model needs them")
    try:
        if subject.installation is not None:
            reason = why_no_private_dali(subject.installation)
            if reason is not None:
                raise ServerError(reason)
        library = find_operators()
    except ServerError as error:
        models = ", ".join(needing)
        return DALI_MODELS.problem(
            "no_operators", "missing", f"{models} cannot be loaded: {reason_of(error)}"
        )
    return DALI_MODELS.fine(f"{', '.join(needing)} by {library}")
