"""Order of the checks over all models of a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endcap._pip_commands import install_command
from endcap.repository.validation.declarations import (
    check_declarations,
    check_files,
    check_identity,
)
from endcap.repository.validation.endcap_model import (
    BLS,
    TRACK,
    check_called_models,
    check_video,
    examine_endcap_model,
)
from endcap.repository.validation.ensemble import check_ensemble
from endcap.repository.validation.model import (
    Finding,
    Model,
    Report,
    Severity,
    model_folders,
    read_model,
)
from endcap.repository.validation.network import examine_network, find_onnx
from endcap.repository.validation.steps import Known
from endcap.repository.validation.tensors import Interface, declared_interface


def validate_repository(repository: Path) -> Report:
    """Check every model of a repository, and what the ensembles make of them.

    Starts no server and changes nothing.

    Raises:
        RepositoryError: It is no folder of model folders.
        ServerError: Triton's gRPC client is not installed.
    """
    folders = model_folders(repository)
    findings: list[Finding] = []
    models: dict[str, Model] = {}
    for folder in folders:
        read = read_model(folder)
        if isinstance(read, Finding):
            findings.append(read)
        else:
            models[read.name] = read
    interfaces = {}
    for model in models.values():
        findings += _general(model)
        of_tensors, interfaces[model.name] = _examine(model)
        findings += of_tensors
    known = Known(frozenset(folder.name for folder in folders), models, interfaces)
    for model in models.values():
        if model.is_ensemble:
            findings += check_ensemble(model, known)
        elif model.backend == BLS:
            findings += check_called_models(model, interfaces[model.name], known.folders)
        elif model.reads_videos:
            findings += check_video(model, known.folders)
    findings = [*dict.fromkeys(findings)]  # of a preprocess model in several ensembles
    return Report(len(folders), sorted(findings, key=lambda f: (str(f.file), f.line or 0)))


def _general(model: Model) -> Iterator[Finding]:
    yield from check_identity(model)
    yield from check_declarations(model)
    yield from check_files(model)


def _examine(model: Model) -> tuple[list[Finding], Interface]:
    if model.stage or model.backend in (BLS, TRACK):
        return examine_endcap_model(model)
    file = find_onnx(model)
    if file is None:
        return [], declared_interface(model)
    try:
        return examine_network(model, file)
    except ImportError as error:
        note = Finding(
            file=file,
            line=None,
            severity=Severity.NOTE,
            model=model.name,
            problem=f"the network was not checked: the package onnx is not installed ({error})",
            remedy=f"`{install_command('init')}`",
        )
        return [note], declared_interface(model)
