"""The model repository before a server reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from endcap.errors import EndcapError
from endcap.server.backends import ONNX_BACKEND, ONNXRUNTIME_VARIABLE, find_onnxruntime
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.installation import OUR_BACKENDS
from endcap.triton.model_config import CONFIG_NAME, read_model_config
from endcap.triton.model_folder import ModelFolder, needed_backend, tells_no_backend

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
            remedy="`{reinstall}`, or give one of your own: `--repository PATH`",
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
CONFIGS = Topic(
    name="model_configs",
    group=Group.REPOSITORY,
    title="configurations",
    meaning="Each `config.pbtxt` fits Triton's definition, and every model names its backend. They "
    "are read with the definition in `tritonclient`; a server of another release may know other "
    "fields.",
    problems={
        "invalid": Problem(
            when="A `config.pbtxt` is broken off or misspelt, or names another model than its "
            "folder does.",
            severity=Severity.ERROR,
            remedy="correct {files}",
        ),
        "no_backend": Problem(
            when="A model has neither a `config.pbtxt` with a backend or platform nor a file, such "
            "as model.onnx or model.py, from which Triton knows it.",
            severity=Severity.ERROR,
            remedy='name the backend, as in backend: "endcap_preprocess", in {files}',
        ),
    },
)
ONNXRUNTIME = Topic(
    name="onnxruntime",
    group=Group.REPOSITORY,
    title="ONNX Runtime",
    meaning=f"The library that models of the backend `{ONNX_BACKEND}` run on: that of "
    f"{ONNXRUNTIME_VARIABLE}, of the Python package `onnxruntime` beside endcap, or of the "
    "server's own backend.",
    problems={
        "absent": Problem(
            when="Models need it, and there is none.",
            severity=Severity.ERROR,
            remedy="`pip install onnxruntime` (for instances on a GPU `onnxruntime-gpu`), or name "
            "the file of another build: "
            f"`export {ONNXRUNTIME_VARIABLE}=/path/to/libonnxruntime.so`",
        ),
        "named_absent": Problem(
            when=f"{ONNXRUNTIME_VARIABLE} names a file that is not there.",
            severity=Severity.ERROR,
            remedy=f"`unset {ONNXRUNTIME_VARIABLE}`, or name the library's file",
        ),
    },
)


def check_repository(subject: Subject) -> Finding:
    """Check that the repository can be read."""
    if isinstance(subject.repository, EndcapError):
        key = "unreadable" if isinstance(subject.repository, ServerError) else "not_shipped"
        return REPOSITORY.problem(key, "none", reason_of(subject.repository))
    folder, models = subject.repository
    return REPOSITORY.ok(f"{', '.join(model.path.name for model in models)} in {folder}")


def check_versions(subject: Subject) -> Finding:
    """Check that every model has a version folder."""
    without = [model.path for model in subject.models if not model.versions]
    if without:
        return VERSIONS.problem(
            "none",
            "incomplete",
            f"{_listed(without)} without a version folder, with which Triton does not start",
            folders=[path / "1" for path in without],
        )
    return VERSIONS.ok("every model has one") if subject.models else _no_models(VERSIONS)


def check_backends(subject: Subject) -> Finding:
    """Check that the server has the models' backends."""
    if not subject.models:
        return _no_models(BACKENDS)
    if subject.installation is None:
        return BACKENDS.skipped("there is no server")
    folder = subject.installation.backends_dir
    available = {*OUR_BACKENDS, *(path.name for path in (folder.iterdir() if folder else ()))}
    needed = {model.path.name: needed_backend(model) for model in subject.models}
    missing = {
        model.path.name: needed[model.path.name]
        for model in subject.models
        if needed[model.path.name] not in ("", *available)
        and not _brings_its_own(model, needed[model.path.name])
    }
    found = ", ".join(sorted({backend for backend in needed.values() if backend}))
    if missing:
        named = ", ".join(f"{model} needs {backend}" for model, backend in missing.items())
        return BACKENDS.problem(
            "onnxruntime" if {*missing.values()} == {"onnxruntime"} else "absent",
            found,
            f"the server has no such backend: {named} (it has {', '.join(sorted(available))})",
        )
    return BACKENDS.ok(found)


def check_steps(subject: Subject) -> Finding:
    """Check the composing models of ensembles."""
    if isinstance(subject.repository, EndcapError):
        return _no_models(STEPS)
    folder, models = subject.repository
    names = {model.path.name for model in models}
    steps = {model.path.name: model.steps for model in models}
    ensembles = [name for name, called in steps.items() if called]
    missing = [f"{name} calls {s}" for name in ensembles for s in steps[name] if s not in names]
    if missing:
        return STEPS.problem(
            "step_missing",
            ", ".join(ensembles),
            f"models are missing: {', '.join(missing)}",
            repository=folder,
        )
    return STEPS.ok(", ".join(ensembles) or "none")


def _brings_its_own(model: ModelFolder, backend: str) -> bool:
    library = f"libtriton_{backend}.so"
    return any((folder / library).is_file() for folder in (model.path, *model.versions))


def _listed(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths) + (" is" if len(paths) == 1 else " are")


def _no_models(topic: Topic) -> Finding:
    return topic.skipped("there is no repository")


def check_configs(subject: Subject) -> Finding:
    """Check the models' configurations."""
    if not subject.models:
        return CONFIGS.skipped("there is no repository")
    without_backend = [model.path for model in subject.models if tells_no_backend(model)]
    try:
        invalid = dict(_invalid([model.path for model in subject.models]))
    except ModuleNotFoundError as error:
        if not without_backend:
            return CONFIGS.note(f"not read: {error}")
        invalid = {}
    if invalid:
        return CONFIGS.problem("invalid", "invalid", "; ".join(invalid.values()), files=[*invalid])
    if without_backend:
        return CONFIGS.problem(
            "no_backend",
            "incomplete",
            ", ".join(f"{path.name} names no backend" for path in without_backend),
            files=[path / CONFIG_NAME for path in without_backend],
        )
    return CONFIGS.ok("all valid")


def _invalid(models: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each file that Triton would refuse, and why.

    Raises ModuleNotFoundError without Triton's gRPC client.
    """
    for model in models:
        file = model / CONFIG_NAME
        if not file.is_file():
            continue
        try:
            name = read_model_config(model, any_encoding=True).name
        except ServerError as error:
            if isinstance(error.__cause__, (ImportError, RuntimeError)):
                raise ModuleNotFoundError("Triton's gRPC client is not installed") from error
            yield file, str(error)
            continue
        if name not in ("", model.name):
            yield file, f"{file} names the model {name}, its folder {model.name}"


def check_onnxruntime(subject: Subject) -> Finding:
    """Check that networks on endcap_onnx would find their library."""
    users = [model.path.name for model in subject.models if model.backend == ONNX_BACKEND]
    if not users:
        return ONNXRUNTIME.skipped(f"no model runs in {ONNX_BACKEND}")
    named = os.environ.get(ONNXRUNTIME_VARIABLE)
    if named:
        if not Path(named).is_file():
            return ONNXRUNTIME.problem("named_absent", named, f"{named} is no file")
        return ONNXRUNTIME.ok(named)
    if subject.installation is None:
        return ONNXRUNTIME.skipped("there is no server")
    found = find_onnxruntime(subject.installation)
    if found is None:
        return ONNXRUNTIME.problem(
            "absent", "none", f"{', '.join(users)} run in {ONNX_BACKEND}, which needs ONNX Runtime"
        )
    return ONNXRUNTIME.ok(str(found))
