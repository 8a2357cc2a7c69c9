"""Checks of a model repository: everything that is wrong, with file and line.

`validate_repository` calls the checks in order: it reads every folder into a `Model` (`model`),
checks each alone, then its tensors: of endcap's backends against their parameters
(`endcap_model`), of networks against the ONNX file (`network`). The resulting `Interface`s are what
ensembles (`ensemble`) and cascades are checked against.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endcap.repository.errors import RepositoryError
from endcap.repository.validation.endcap_model import BLS, TRACK, examine_endcap_model
from endcap.repository.validation.ensemble import RepositoryModels, check_ensemble
from endcap.repository.validation.model import (
    Finding,
    Interface,
    Model,
    Report,
    Severity,
    read_model,
)
from endcap.repository.validation.network import examine_network, find_onnx
from endcap.triton.model_config import CONFIG_NAME
from endcap.triton.model_folder import model_folders
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

__all__ = ["Finding", "Report", "Severity", "validate_repository"]


def validate_repository(repository: Path) -> Report:
    """Check every model of a repository, and what the ensembles make of them.

    Starts no server and changes nothing.

    Raises:
        RepositoryError: It is the folder of one model.
        ServerError: It is not a folder of folders, or Triton's gRPC client is not installed.
    """
    if (repository / CONFIG_NAME).is_file():
        raise RepositoryError(
            f"{repository} is a model's folder; give the folder around it, {repository}/.."
        )
    folders = model_folders(repository)
    read = [read_model(folder) for folder in folders]
    findings = [each for each in read if isinstance(each, Finding)]
    models = {each.name: each for each in read if isinstance(each, Model)}
    known = RepositoryModels(frozenset(folder.name for folder in folders), models, {})
    for model in models.values():
        of_tensors, known.interfaces[model.name] = _examine(model, known.folders)
        findings += [*_check_declarations(model), *of_tensors]
    for model in models.values():
        if model.is_ensemble:
            findings += check_ensemble(model, known)
    findings = [*dict.fromkeys(findings)]  # of a preprocess model in several ensembles
    return Report(len(folders), sorted(findings, key=lambda f: (str(f.file), f.line or 0)))


def _examine(model: Model, folders: frozenset[str]) -> tuple[list[Finding], Interface]:
    if model.stage or model.needed_backend in (BLS, TRACK):
        return examine_endcap_model(model, folders)
    file = find_onnx(model)
    return examine_network(model, file) if file else ([], model.declared_interface())


def _check_declarations(model: Model) -> Iterator[Finding]:
    """Check what the configuration says of the name, the backend, versions and files."""
    name = model.config.value("name")
    if name not in ("", model.name):
        yield model.error(
            model.config.find_line("name"),
            f"the model is named {name}, and its folder {model.name}; give both the "
            "same name, or leave the line out",
        )
    if not model.versions:
        problem, remedy = "the model has no version folder", f"`mkdir {model.path / '1'}`"
        yield Finding(model.path, None, Severity.ERROR, model.name, problem, remedy)
    if not model.needed_backend and not model.is_ensemble:
        yield model.error(
            1,
            "the model names no backend, and has no file from which Triton would choose one; name "
            'it, as in backend: "endcap_preprocess"',
        )
    yield from _check_versions(model)
    for line, what, file in _named_files(model):
        if not file.exists():
            text = f"{what} {file}, which is not there; put it there, or leave the field out"
            yield model.error(line, text)


def _check_versions(model: Model) -> Iterator[Finding]:
    there, loaded = model.versions, model.loaded_versions()
    policies = model.config.blocks("version_policy")
    chosen = [each for policy in policies for each in policy.blocks("specific")]
    for version in loaded:
        if version not in there:
            make = model.warning if {*loaded} & {*there} else model.error
            yield make(
                chosen[0].find_line("versions"),
                f"version_policy asks for version {version}, which has no folder; `mkdir "
                f"{model.path / str(version)}`, or take it out of the list",
            )
    line = model.config.find_line("default_model_filename", "backend", "platform")
    for version in there:
        file = model.network_file(version)
        if file is not None and not file.exists():
            make = model.error if version in loaded else model.warning
            yield make(
                line,
                f"the model needs {file}, which is not there; put it there, or name the file that "
                "is in default_model_filename",
            )


def _named_files(model: Model) -> Iterator[tuple[int, str, Path]]:
    """Yield the line, the description and the path of each file that config.pbtxt names."""
    for output in model.config.blocks("output"):
        if named := output.value("label_filename"):
            what = f"output {output.value('name')} has the label_filename"
            yield output.find_line("label_filename"), what, model.path / named
    for sample in model.config.blocks("model_warmup"):
        for tensor in [each for entry in sample.blocks("inputs") for each in entry.blocks("value")]:
            if named := tensor.value("input_data_file"):
                what = f"the warm-up {sample.value('name')} reads"
                yield tensor.find_line("input_data_file"), what, model.path / "warmup" / named
    environment = model.parameters.get(EXECUTION_ENVIRONMENT, "")
    if model.runs_python and MODEL_DIRECTORY in environment:
        line = model.parameter_line(EXECUTION_ENVIRONMENT)
        file = Path(environment.replace(MODEL_DIRECTORY, str(model.path)))
        yield line, f"{EXECUTION_ENVIRONMENT} is", file
