"""Names that Triton's Python backend hands to a shell: whether they arrive there as they are."""

from __future__ import annotations

from endcap._system.scratch import root_path
from endcap.server.shell_words import check_model_names, check_scratch
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

PATHS = Topic(
    name="python_paths",
    group=Group.PYTHON_MODELS,
    title="names",
    meaning="The Python backend starts its stubs through a shell and quotes nothing, so that "
    "`endcap serve` lets only letters, digits and ._+- into what it is given: the temporary "
    "folder, and the folder of a Python model. The repository itself may lie in any folder.",
    problems={
        "temporary": Problem(
            when="The temporary folder has another character in its path.",
            severity=Severity.ERROR,
            remedy="`export TMPDIR=/tmp`",
        ),
        "model": Problem(
            when="The folder of a Python model has another character in its name.",
            severity=Severity.ERROR,
            remedy="rename the folder, and the model in ensembles that call it",
        ),
    },
)


def check_paths(subject: Subject) -> Finding:
    """The temporary folder and the models' names."""
    try:
        check_scratch(root_path() / "server")
    except ServerError as error:
        return PATHS.problem("temporary", str(root_path().parent), reason_of(error))
    try:
        check_model_names(subject.models)
    except ServerError as error:
        return PATHS.problem("model", "unusable", reason_of(error))
    return PATHS.fine("need no quotes")
