"""The models' configurations: whether Triton would take them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.model_config import CONFIG_NAME, read_model_config
from endcap.triton.model_folder import tells_no_backend

CONFIGS = Topic(
    name="model_configs",
    group=Group.REPOSITORY,
    title="configurations",
    meaning="Each `config.pbtxt` fits Triton's definition, and every model tells its backend. They "
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


def check_configs(subject: Subject) -> Finding:
    """What Triton would read of each model first."""
    if not subject.models:
        return CONFIGS.not_looked_at("there is no repository")
    silent = [model.path for model in subject.models if tells_no_backend(model)]
    try:
        invalid = dict(_invalid([model.path for model in subject.models]))
    except ModuleNotFoundError as error:
        if not silent:
            return CONFIGS.note(f"not read: {error}")
        invalid = {}
    if invalid:
        return CONFIGS.problem("invalid", "invalid", "; ".join(invalid.values()), files=[*invalid])
    if silent:
        return CONFIGS.problem(
            "no_backend",
            "incomplete",
            ", ".join(f"{path.name} tells no backend" for path in silent),
            files=[path / CONFIG_NAME for path in silent],
        )
    return CONFIGS.fine("all valid")


def _invalid(models: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each file that Triton would refuse, and why.

    Raises ModuleNotFoundError without Triton's gRPC client.
    """
    for model in models:
        file = model / CONFIG_NAME
        if not file.is_file():
            continue
        try:
            name = read_model_config(model).name
        except ServerError as error:
            if isinstance(error.__cause__, (ImportError, RuntimeError)):
                raise ModuleNotFoundError("Triton's gRPC client is not installed") from error
            if _is_utf8(file):  # Triton also takes texts in other encodings
                yield file, str(error)
            continue
        if name not in ("", model.name):
            yield file, f"{file} names the model {name}, its folder {model.name}"


def _is_utf8(file: Path) -> bool:
    try:
        file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True
