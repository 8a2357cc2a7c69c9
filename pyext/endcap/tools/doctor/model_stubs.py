"""The stubs that Python models carry in their folders: whether each can work here."""

from __future__ import annotations

from endcap.environment.stub import check
from endcap.environment.stub.front import LOG_NAME, STUB_NAME
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

MODEL_STUBS = Topic(
    name="model_stubs",
    group=Group.PYTHON_MODELS,
    title="model stubs",
    meaning="A Python model may carry the stub that `endcap stub install` puts into its folder. It "
    "looks at the model's environment before Triton's own stub starts: the version of Python, "
    "libpython, NumPy, endcap, the server's release, and room in /dev/shm. The same is looked at "
    "here; a packed environment is read to its end first.",
    problems={
        "refuses": Problem(
            when="A model's stub would refuse to start.",
            severity=Severity.ERROR,
            remedy="follow the error message; `endcap stub check {folder}` shows all that it found",
        ),
        "refused": Problem(
            when="The stub fits here, but has refused when it was last started.",
            severity=Severity.WARNING,
            remedy="start the server again, and read {file} if it is still there",
        ),
    },
)


def check_stubs(subject: Subject) -> Finding:
    """What the front in each model's folder says."""
    carrying = [model.path for model in subject.models if (model.path / STUB_NAME).is_file()]
    for model in carrying:
        report = check(model, tritonserver=subject.tritonserver)
        if report.problem is not None:
            message = f"{model.name}: {report.problem}"
            return MODEL_STUBS.problem("refuses", "unusable", message, folder=model)
        log = model / LOG_NAME
        if log.is_file():
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            return MODEL_STUBS.problem("refused", "refused", f"{model.name}: {said}", file=log)
    return MODEL_STUBS.fine(", ".join(model.name for model in carrying) or "none")
