"""The model repository: what can be seen in it before a server reads it."""

from __future__ import annotations

import re
from pathlib import Path

from endcap.errors import EndcapError
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.installation import OUR_BACKENDS
from endcap.triton.model_folder import ModelFolder, needed_backend

_STEP = re.compile(r'\bmodel_name\s*:\s*"([^"]*)"')
REPOSITORY = Topic(
    name="repository",
    group=Group.REPOSITORY,
    title="models",
    meaning="The folder of models, `--repository` or else the one that comes with endcap, can be "
    "read, and every folder in it is a model.",
    problems={
        "unreadable": Problem(
            when="The folder is not there, holds no model, or holds a folder that is none.",
            severity=Severity.ERROR,
            remedy="give a folder in which each folder is a model, with a config.pbtxt and a "
            "version folder such as 1/: `--repository PATH`",
        ),
        "not_shipped": Problem(
            when="No `--repository` is given, and the installation has none.",
            severity=Severity.ERROR,
            remedy="`pip install --force-reinstall --no-deps endcap`, or give one of your own: "
            "`--repository PATH`",
        ),
    },
)

VERSIONS = Topic(
    name="model_versions",
    group=Group.REPOSITORY,
    title="version folders",
    meaning="Every model has a version folder, which may be empty where the model needs no file. "
    "Empty folders get lost in Git and in archives.",
    problems={
        "none": Problem(
            when="A model has no version folder.",
            severity=Severity.ERROR,
            remedy="`mkdir {folders}`",
        ),
    },
)

BACKENDS = Topic(
    name="model_backends",
    group=Group.REPOSITORY,
    title="model backends",
    meaning="The server has the backend that each model names. The server of the wheel has "
    "endcap's backends and `python`, and no other.",
    problems={
        "absent": Problem(
            when="A model needs a backend that the server does not have.",
            severity=Severity.ERROR,
            remedy="use a server that has it, such as NVIDIA's container (`--tritonserver PATH`), "
            'or run the network as a Python model: backend: "python" and a model.py, as in the '
            "shipped model_repository/detector_python",
        ),
        "onnxruntime": Problem(
            when="Models need Triton's backend for ONNX Runtime, which the server does not have.",
            severity=Severity.ERROR,
            remedy='write backend: "endcap_onnx" for "onnxruntime" in their config.pbtxt: '
            "endcap's backend serves the same folder; or use NVIDIA's container "
            "(`--tritonserver PATH`)",
        ),
    },
)

STEPS = Topic(
    name="ensembles",
    group=Group.REPOSITORY,
    title="ensembles",
    meaning="Every model that an ensemble calls is in the repository.",
    problems={
        "step_missing": Problem(
            when="An ensemble calls a model that is not there.",
            severity=Severity.ERROR,
            remedy="put the model into {repository}, or correct model_name in the ensemble's "
            "config.pbtxt",
        ),
    },
)


def check_repository(subject: Subject) -> Finding:
    """Whether Triton could start on it."""
    if isinstance(subject.repository, EndcapError):
        key = "unreadable" if isinstance(subject.repository, ServerError) else "not_shipped"
        return REPOSITORY.problem(key, "none", reason_of(subject.repository))
    folder, models = subject.repository
    return REPOSITORY.fine(f"{', '.join(model.path.name for model in models)} in {folder}")


def check_versions(subject: Subject) -> Finding:
    """A model without a version folder does not load."""
    without = [model.path for model in subject.models if not _versions(model)]
    if without:
        return VERSIONS.problem(
            "none",
            "incomplete",
            f"{_listed(without)} without a version folder, with which Triton does not start",
            folders=[path / "1" for path in without],
        )
    return VERSIONS.fine("every model has one") if subject.models else _no_models(VERSIONS)


def check_backends(subject: Subject) -> Finding:
    """What the models run in."""
    if not subject.models:
        return _no_models(BACKENDS)
    if subject.installation is None:
        return BACKENDS.not_looked_at("there is no server")
    folder = subject.installation.backends_dir
    there = {*OUR_BACKENDS, *(path.name for path in (folder.iterdir() if folder else ()))}
    needed = {model.path.name: needed_backend(model) for model in subject.models}
    lacking = {
        model.path.name: needed[model.path.name]
        for model in subject.models
        if needed[model.path.name] not in ("", *there)
        and not _brings_its_own(model, needed[model.path.name])
    }
    found = ", ".join(sorted({backend for backend in needed.values() if backend}))
    if lacking:
        named = ", ".join(f"{model} needs {backend}" for model, backend in lacking.items())
        return BACKENDS.problem(
            "onnxruntime" if {*lacking.values()} == {"onnxruntime"} else "absent",
            found,
            f"the server has no such backend: {named} (it has {', '.join(sorted(there))})",
        )
    return BACKENDS.fine(found)


def check_steps(subject: Subject) -> Finding:
    """What the ensembles call."""
    if isinstance(subject.repository, EndcapError):
        return _no_models(STEPS)
    folder, models = subject.repository
    names = {model.path.name for model in models}
    steps = {model.path.name: _STEP.findall(model.config) for model in models}
    ensembles = [name for name, called in steps.items() if called]
    lacking = [f"{name} calls {s}" for name in ensembles for s in steps[name] if s not in names]
    if lacking:
        return STEPS.problem(
            "step_missing",
            ", ".join(ensembles),
            f"models are missing: {', '.join(lacking)}",
            repository=folder,
        )
    return STEPS.fine(", ".join(ensembles) or "none")


def _versions(model: ModelFolder) -> list[Path]:
    return sorted(p for p in model.path.iterdir() if p.is_dir() and p.name.isdecimal())


def _brings_its_own(model: ModelFolder, backend: str) -> bool:
    library = f"libtriton_{backend}.so"
    return any((folder / library).is_file() for folder in (model.path, *_versions(model)))


def _listed(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths) + (" is" if len(paths) == 1 else " are")


def _no_models(topic: Topic) -> Finding:
    return topic.not_looked_at("there is no repository")
