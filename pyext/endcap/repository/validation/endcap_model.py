"""Models of endcap's backends: what the core says of their parameters and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.repository.validation.model import (
    SIDES,
    Finding,
    Interface,
    Model,
    Port,
    declared_interface,
    declared_ports,
    read_data_type,
)
from endcap.triton.ensemble import POSTPROCESS_BACKEND
from endcap.triton.model_contract import (
    ConfigProblem,
    ModelContract,
    complete_config,
    model_contract,
)
from endcap.triton.parameters import OPTIONAL, SERVER_PARAMETERS
from endcap.triton.stage_settings import read_class_names
from endcap.triton.tensor_spec import TensorSpec, free_dims

BLS = "endcap_bls"
TRACK = "endcap_track"


def examine_endcap_model(model: Model) -> tuple[list[Finding], Interface]:
    """Return what is wrong with a model of endcap's backends, and its tensors as completed."""
    findings: list[Finding] = []
    of_python = (*SERVER_PARAMETERS, OPTIONAL) if model.runs_python else ()
    given = {name: text for name, text in model.parameters.items() if name not in of_python}
    if model.runs_python and model.parameters.get(OPTIONAL, "false") not in ("true", "false"):
        text = f"{OPTIONAL} is neither true nor false; give one of them"
        findings.append(model.error(model.parameter_line(OPTIONAL), text))
    contract = _read_contract(model, given, findings)
    inputs = [entry.name for entry in model.message.input]
    if model.runs_python and "rois" in inputs:
        findings.append(
            model.error(
                model.config.nth("input", inputs.index("rois")).find_line("name"),
                "the model has an input rois, and Python models take whole images; cut regions out "
                "by a model in the backend endcap_preprocess",
            )
        )
    if findings or contract is None:
        return findings, declared_interface(model, in_doubt=True)
    backend = model.stage or model.needed_backend
    done, problems = complete_config(backend, given, _as_json(model), complete=True)
    for side in SIDES:
        problems = _without_consequences(problems, side)
    findings += [_contradiction(model, problem) for problem in problems]
    taken, made = (_complete(model, side, done[side], contract, problems) for side in SIDES)
    if model.stage == POSTPROCESS_BACKEND:
        try:
            read_class_names(given, model.path)
        except InvalidArgumentError as error:
            findings.append(model.error(model.parameter_line("labels_file"), _with_remedy(error)))
    if model.needed_backend == TRACK:
        findings += _check_candidates(model)
    wrong = bool(problems)
    return findings, Interface(taken, made, model.largest_batch, wrong, models=contract.models)


def _read_contract(
    model: Model, given: dict[str, str], findings: list[Finding]
) -> ModelContract | None:
    """Return the contract once every parameter at fault is reported and taken out of `given`."""
    backend = model.stage or model.needed_backend
    rois = any(entry.name == "rois" for entry in model.message.input)
    while True:
        try:
            return model_contract(backend, given, with_rois=rois, in_python=model.runs_python)
        except EndcapError as error:
            name = _parameter_in(str(error), given)
            line = model.config.find_line("parameters" if name else "backend")
            line = model.parameter_line(name) if name else line
            findings.append(model.error(line, _with_remedy(error)))
            if name is None:
                return None
            del given[name]  # to see whether the rest is right


def _parameter_in(message: str, given: Mapping[str, str]) -> str | None:
    """Return the parameter that the core's message names first."""
    for name in given:
        if message.startswith((f"{name} ", f"'{name}' ")):
            return name
    return next((name for name in given if f" {name} " in message), None)


def _with_remedy(error: object) -> str:
    """Return a message of the core with its remedy behind a semicolon, not a colon."""
    problem, _, remedy = str(error).rpartition(": ")
    return f"{problem or remedy}; {remedy.replace('; ', ', ')}"


def _contradiction(model: Model, problem: ConfigProblem) -> Finding:
    if problem.list == "parameters":
        line = model.parameter_line(problem.field)
    elif problem.index < 0:
        line = model.config.find_line(problem.list or problem.field, "backend")
    else:
        fields = ("reshape", "dims") if problem.field == "dims" else (problem.field,)
        line = model.config.nth(problem.list, problem.index).find_line(*fields)
    what, _, remedy = problem.message.partition(": ")
    return model.error(line, f"{what}; {remedy.replace('; ', ', ')}")


def _without_consequences(problems: Sequence[ConfigProblem], side: str) -> list[ConfigProblem]:
    """Leave out one missing tensor for each misnamed one: the one that was meant."""
    misnamed = sum(each.list == side and each.field == "name" for each in problems)
    missing = [each for each in problems if each.list == side and each.index < 0]
    return [each for each in problems if each not in missing[:misnamed]]


def _as_json(model: Model) -> dict[str, Any]:
    """Return what the core reads of a config.pbtxt."""

    def tensor(entry: Any) -> dict[str, Any]:
        fields = {
            "name": entry.name,
            "data_type": f"TYPE_{read_data_type(entry) or 'INVALID'}",
            "dims": [*entry.dims],
            "label_filename": getattr(entry, "label_filename", ""),
        }
        if entry.HasField("reshape"):
            fields["reshape"] = {"shape": [*entry.reshape.shape]}
        return fields

    config = model.message
    sides = {side: [tensor(entry) for entry in getattr(config, side)] for side in SIDES}
    done = {"name": model.name, "max_batch_size": config.max_batch_size, **sides}
    return {**done, **({"sequence_batching": {}} if config.HasField("sequence_batching") else {})}


def _complete(
    model: Model,
    side: str,
    entries: Sequence[dict[str, Any]],
    contract: ModelContract,
    problems: Sequence[ConfigProblem],
) -> dict[str, Port]:
    """Return the tensors of one side as the backend completes them."""
    declared = declared_ports(model, side)
    allowed = contract.tensors[side]
    wrong = {each.index for each in problems if each.list == side}
    ports = {}
    for index, entry in enumerate(entries):
        name, data_type = entry["name"], entry["data_type"].removeprefix("TYPE_")
        port = declared.get(name) or Port(
            TensorSpec("", "", ()), optional=name in allowed and allowed[name].optional
        )
        ports[name] = replace(
            port,
            tensor=TensorSpec(name, data_type, free_dims(entry["dims"])),
            optional=port.optional or index in wrong,
            in_doubt=port.in_doubt or index in wrong,
            determined_by=allowed[name].determined_by if name in allowed else "",
        )
    if wrong:  # one of these may have been meant
        for name, each in allowed.items():
            ports.setdefault(name, Port(each.forms[0], optional=True, in_doubt=True))
    return ports


def _check_candidates(model: Model) -> Iterator[Finding]:
    batching = model.message.sequence_batching
    most = batching.oldest.max_candidate_sequences
    limit = int(model.parameters.get("max_sequences", "1000"))
    if batching.HasField("oldest") and most <= limit:
        yield model.warning(
            model.config.find_line("sequence_batching"),
            f"max_candidate_sequences is {most}, and max_sequences {limit}; give more than "
            f"{limit}: sequences beyond the candidates wait without an error",
        )


def check_called_models(
    model: Model, interface: Interface, folders: frozenset[str]
) -> Iterator[Finding]:
    """Check that the models exist that a cascade calls."""
    for parameter, name in interface.models:
        if name not in folders:
            yield model.warning(
                model.parameter_line(parameter),
                f"{parameter} names model {name}, which is not in this repository; add it, or "
                "correct the name",
            )
