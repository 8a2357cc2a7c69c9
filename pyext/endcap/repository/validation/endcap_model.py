"""Models of endcap's backends: what the core says of their parameters and tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.repository.validation.model import POSTPROCESS, Finding, Model, enum_name
from endcap.repository.validation.tensors import (
    SIDES,
    Interface,
    Port,
    declared_interface,
    declared_ports,
)
from endcap.triton.model_contract import (
    ConfigProblem,
    ModelContract,
    complete_config,
    model_contract,
)
from endcap.triton.parameters import OPTIONAL, SERVER_PARAMETERS
from endcap.triton.stage_settings import read_class_names
from endcap.triton.tensor_spec import TensorSpec, free_dims
from endcap.triton.video_settings import read_video_settings

BLS = "endcap_bls"
TRACK = "endcap_track"


def examine_endcap_model(model: Model) -> tuple[list[Finding], Interface]:
    """Return what is wrong with a model of endcap's backends, and its tensors as completed."""
    findings: list[Finding] = []
    of_python = (*SERVER_PARAMETERS, OPTIONAL) if model.backend == "python" else ()
    given = {name: text for name, text in model.parameters.items() if name not in of_python}
    contract = _read_contract(model, given, findings)
    if model.runs_dali and "rois" in (names := [entry.name for entry in model.config.input]):
        line = model.lines.nth("input", names.index("rois")).line_of("name")
        findings.append(
            model.error(
                line,
                "the model has an input rois, and its DALI pipeline takes whole images",
                "cut regions out by preprocess_rois or preprocess_python",
            )
        )
    if findings or contract is None:
        return findings, declared_interface(model, in_doubt=True)
    done, problems = complete_config(_backend(model), given, _as_json(model), complete=True)
    for side in SIDES:
        problems = _without_consequences(problems, side)
    findings += [_contradiction(model, problem) for problem in problems]
    ports = [_complete(model, side, done[side], contract, problems) for side in SIDES]
    if model.stage == POSTPROCESS:
        findings += _check_class_names(model, given)
    if model.backend == TRACK:
        findings += _check_candidates(model)
    return findings, Interface(
        ports[0], ports[1], model.max_batch_size, bool(problems), models=contract.models
    )


def _backend(model: Model) -> str:
    return model.stage or model.backend


def _read_contract(
    model: Model, given: dict[str, str], findings: list[Finding]
) -> ModelContract | None:
    """Return the contract once every parameter at fault is reported and taken out of `given`."""
    if model.parameters.get(OPTIONAL, "false") not in ("true", "false") and model.stage:
        line = model.parameter_line(OPTIONAL)
        findings.append(model.error(line, f"{OPTIONAL} is neither true nor false", "give one"))
    with_rois = any(entry.name == "rois" for entry in model.config.input)
    while True:
        try:
            return model_contract(
                _backend(model), given, with_rois=with_rois, in_python=model.backend == "python"
            )
        except EndcapError as error:
            name = _parameter_in(str(error), given)
            line = model.lines.line_of("parameters" if name else "backend")
            findings.append(_finding(model, model.parameter_line(name) if name else line, error))
            if name is None:
                return None
            del given[name]  # to see whether the rest is right


def _parameter_in(message: str, given: dict[str, str]) -> str | None:
    """Return the parameter that the core's message names first."""
    for name in given:
        if message.startswith((f"{name} ", f"'{name}' ")):
            return name
    return next((name for name in given if f" {name} " in message), None)


def _finding(model: Model, line: int, error: object) -> Finding:
    problem, _, remedy = str(error).rpartition(": ")
    return model.error(line, problem or remedy, remedy)


def _contradiction(model: Model, problem: ConfigProblem) -> Finding:
    if problem.list == "parameters":
        line = model.parameter_line(problem.field)
    elif problem.index < 0:
        line = model.lines.line_of(problem.list or problem.field, "backend")
    else:
        fields = ("reshape", "dims") if problem.field == "dims" else (problem.field,)
        line = model.lines.nth(problem.list, problem.index).line_of(*fields)
    what, _, remedy = problem.message.partition(": ")
    return model.error(line, what, remedy)


def _without_consequences(problems: Sequence[ConfigProblem], side: str) -> list[ConfigProblem]:
    """Leave out one missing tensor for each misnamed one: the one that was meant."""
    misnamed = sum(each.list == side and each.field == "name" for each in problems)
    missing = [each for each in problems if each.list == side and each.index < 0]
    return [each for each in problems if each not in missing[:misnamed]]


def _as_json(model: Model) -> dict[str, Any]:
    """Return what the core reads of a config.pbtxt."""

    def tensor(entry: Any) -> dict[str, Any]:
        fields = {"name": entry.name, "data_type": enum_name(entry, "data_type")}
        reshape = {"shape": [*entry.reshape.shape]} if entry.HasField("reshape") else None
        return {
            **fields,
            "dims": [*entry.dims],
            "label_filename": getattr(entry, "label_filename", ""),
            **({"reshape": reshape} if reshape else {}),
        }

    config = model.config
    sides = {side: [tensor(entry) for entry in getattr(config, side)] for side in SIDES}
    fields: dict[str, Any] = {"name": model.name, "max_batch_size": config.max_batch_size, **sides}
    if config.HasField("sequence_batching"):
        fields["sequence_batching"] = {}
    return fields


def _complete(
    model: Model,
    side: str,
    entries: Sequence[dict[str, Any]],
    contract: ModelContract,
    problems: Sequence[ConfigProblem],
) -> dict[str, Port]:
    """Return the tensors of one side as the backend completes them."""
    declared = declared_ports(model, side)
    wrong = {each.index for each in problems if each.list == side}
    ports = {}
    for index, entry in enumerate(entries):
        allowed = contract.tensors[side].get(entry["name"])
        port = declared.get(entry["name"], Port(TensorSpec("", "", ())))
        data_type = entry["data_type"].removeprefix("TYPE_")
        spec = TensorSpec(entry["name"], data_type, free_dims(entry["dims"]))
        port = replace(port, tensor=spec, determined_by=allowed.determined_by if allowed else "")
        if port.block is None and allowed:
            port = replace(port, optional=allowed.optional)
        ports[entry["name"]] = (
            replace(port, optional=True, in_doubt=True) if index in wrong else port
        )
    if wrong:  # one of these may have been meant
        for name, allowed in contract.tensors[side].items():
            ports.setdefault(name, Port(allowed.forms[0], optional=True, in_doubt=True))
    return ports


def _check_class_names(model: Model, given: dict[str, str]) -> Iterator[Finding]:
    try:
        read_class_names(given, model.folder)
    except InvalidArgumentError as error:
        yield _finding(model, model.parameter_line("labels_file"), error)


def _check_candidates(model: Model) -> Iterator[Finding]:
    batching = model.config.sequence_batching
    most = batching.oldest.max_candidate_sequences
    limit = int(model.parameters.get("max_sequences", "1000"))
    if batching.HasField("oldest") and most <= limit:
        yield model.warning(
            model.lines.line_of("sequence_batching"),
            f"max_candidate_sequences is {most}, and max_sequences {limit}",
            f"give more than {limit}: sequences beyond the candidates wait without an error",
        )


def check_called_models(
    model: Model, interface: Interface, folders: frozenset[str]
) -> Iterator[Finding]:
    """Check that the models exist that a cascade calls."""
    for parameter, name in interface.models:
        if name not in folders:
            yield model.warning(
                model.parameter_line(parameter),
                f"{parameter} names model {name}, which is not in this repository",
                "add it, or correct the name; requests that need it fail without it",
            )


def check_video(model: Model, folders: frozenset[str]) -> Iterator[Finding]:
    """Check the parameters of a model that reads videos, and that the model it calls exists."""
    values = {name: {"string_value": value} for name, value in model.parameters.items()}
    try:
        settings = read_video_settings({"name": model.name, "parameters": values})
    except InvalidArgumentError as error:
        problem, *remedy = re.split("[:;] ", str(error), maxsplit=1)
        name = _parameter_in(str(error), dict(model.parameters))
        line = model.parameter_line(name) if name else model.lines.line_of("parameters")
        yield model.error(line, problem, *(remedy or ["leave it out"]))
        return
    if settings.model not in folders:
        given = "model" in model.parameters
        yield model.warning(
            model.parameter_line("model") if given else model.lines.line_of("parameters"),
            f"model names {settings.model}, which is not in this repository",
            "add it, or correct the name; frames cannot be detected without it",
        )
    if not model.config.model_transaction_policy.decoupled:
        yield model.error(
            model.lines.line_of("backend"),
            "a model of videos that is not decoupled",
            "add model_transaction_policy { decoupled: true }",
        )
