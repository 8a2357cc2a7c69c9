"""Checks of a model repository: everything that is wrong, with file and line.

`validate_repository` calls the checks in order: it reads every folder into a `Model` (`model`),
checks each alone (`declarations`), then its tensors: of endcap's backends against their parameters
(`endcap_model`), of networks against the ONNX file (`network`). The resulting `Interface`s are what
ensembles (`ensemble`) and cascades are checked against.
"""

from __future__ import annotations

from pathlib import Path

from endcap._pip_commands import install_command
from endcap.repository.errors import RepositoryError
from endcap.repository.validation.declarations import check_declarations
from endcap.repository.validation.endcap_model import (
    BLS,
    TRACK,
    check_called_models,
    examine_endcap_model,
)
from endcap.repository.validation.ensemble import Known, check_ensemble
from endcap.repository.validation.model import (
    Finding,
    Interface,
    Model,
    Report,
    Severity,
    declared_interface,
    read_model,
)
from endcap.repository.validation.network import examine_network, find_onnx
from endcap.triton.model_config import CONFIG_NAME
from endcap.triton.model_folder import model_folders

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
    interfaces = {}
    for model in models.values():
        of_tensors, interfaces[model.name] = _examine(model)
        findings += [*check_declarations(model), *of_tensors]
    known = Known(frozenset(folder.name for folder in folders), models, interfaces)
    for model in models.values():
        if model.is_ensemble:
            findings += check_ensemble(model, known)
        elif model.needed_backend == BLS:
            findings += check_called_models(model, interfaces[model.name], known.folders)
    findings = [*dict.fromkeys(findings)]  # of a preprocess model in several ensembles
    return Report(len(folders), sorted(findings, key=lambda f: (str(f.file), f.line or 0)))


def _examine(model: Model) -> tuple[list[Finding], Interface]:
    if model.stage or model.needed_backend in (BLS, TRACK):
        return examine_endcap_model(model)
    file = find_onnx(model)
    if file is None:
        return [], declared_interface(model)
    try:
        return examine_network(model, file)
    except ImportError as error:
        problem = f"the network was not checked: the package onnx is not installed ({error})"
        remedy = f"`{install_command('init')}`"
        note = Finding(file, None, Severity.NOTE, model.name, problem, remedy)
        return [note], declared_interface(model)
