"""Models of endcap's backends: what the core says of their parameters and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.repository.validation.model import SIDES, Finding, Interface, Model, Port
from endcap.triton.ensemble import POSTPROCESS_BACKEND
from endcap.triton.model_config import Block
from endcap.triton.model_contract import (
    ConfigProblem,
    ModelContract,
    complete_config,
    model_contract,
)
from endcap.triton.model_folder import read_integer
from endcap.triton.parameters import OPTIONAL, SERVER_PARAMETERS
from endcap.triton.stage_settings import read_class_names
from endcap.triton.tensor_spec import TensorSpec, free_dims

BLS = "endcap_bls"
TRACK = "endcap_track"


def examine_endcap_model(model: Model, folders: frozenset[str]) -> tuple[list[Finding], Interface]:
    """Return what is wrong with a model of endcap's backends, and its tensors as completed.

    `folders` are those of the repository, which has to have the models that a cascade calls.
    """
    findings: list[Finding] = []
    of_python = (*SERVER_PARAMETERS, OPTIONAL) if model.runs_python else ()
    given = {name: text for name, text in model.parameters.items() if name not in of_python}
    if model.runs_python and model.parameters.get(OPTIONAL, "false") not in ("true", "false"):
        text = f"{OPTIONAL} is neither true nor false; give one of them"
        findings.append(model.error(model.parameter_line(OPTIONAL), text))
    contract = _read_contract(model, given, findings)
    rois = model.declared_ports("input").get("rois")
    if model.runs_python and rois and rois.block:
        text = (
            "the model has an input rois, and Python models take whole images; cut regions out by "
            "a model in the backend endcap_preprocess"
        )
        findings.append(model.error(rois.block.find_line("name"), text))
    if findings or contract is None:
        return findings, Interface(None, None, model.largest_batch)
    backend = model.stage or model.needed_backend
    done, problems = complete_config(backend, given, _as_json(model), complete=True)
    for side in SIDES:
        problems = _without_consequences(problems, side)
    findings = [_contradiction(model, problem) for problem in problems]
    if model.stage == POSTPROCESS_BACKEND:
        try:
            read_class_names(given, model.path)
        except InvalidArgumentError as error:
            findings.append(model.error(model.parameter_line("labels_file"), _with_remedy(error)))
    if model.needed_backend == TRACK:
        findings += _check_candidates(model)
    for parameter, name in contract.models:
        if name not in folders:
            text = (
                f"{parameter} names model {name}, which is not in this repository; add it, or "
                "correct the name"
            )
            findings.append(model.warning(model.parameter_line(parameter), text))
    if problems:
        return findings, Interface(None, None, model.largest_batch, contradictory=True)
    taken, made = (_complete(model, side, done[side], contract) for side in SIDES)
    return findings, Interface(taken, made, model.largest_batch)


def _read_contract(
    model: Model, given: dict[str, str], findings: list[Finding]
) -> ModelContract | None:
    """Return the contract once every parameter at fault is reported and taken out of `given`."""
    backend = model.stage or model.needed_backend
    rois = "rois" in model.declared_ports("input")
    while True:
        try:
            return model_contract(backend, given, with_rois=rois, in_python=model.runs_python)
        except EndcapError as error:
            name = _parameter_in(str(error), given)
            line = model.parameter_line(name) if name else model.config.find_line("backend")
            findings.append(model.error(line, _with_remedy(error)))
            if name in (None, "head"):  # nothing is known without a head
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
        line = model.config.blocks(problem.list)[problem.index].find_line(*fields)
    what, _, remedy = problem.message.partition(": ")
    return model.error(line, f"{what}; {remedy.replace('; ', ', ')}")


def _without_consequences(problems: Sequence[ConfigProblem], side: str) -> list[ConfigProblem]:
    """Leave out one missing tensor for each misnamed one: the one that was meant."""
    misnamed = sum(each.list == side and each.field == "name" for each in problems)
    missing = [each for each in problems if each.list == side and each.index < 0]
    return [each for each in problems if each not in missing[:misnamed]]


def _as_json(model: Model) -> dict[str, Any]:
    """Return what the core reads of a config.pbtxt."""

    def tensor(entry: Block) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "name": entry.value("name"),
            "data_type": entry.value("data_type") or "TYPE_INVALID",
            "dims": [*map(read_integer, entry.values("dims"))],
            "label_filename": entry.value("label_filename"),
        }
        for reshape in entry.blocks("reshape"):
            fields["reshape"] = {"shape": [*map(read_integer, reshape.values("shape"))]}
        return fields

    config = model.config
    largest = read_integer(config.value("max_batch_size"))
    done: dict[str, Any] = {"name": model.name, "max_batch_size": largest}
    if config.blocks("sequence_batching"):
        done["sequence_batching"] = {}
    return {**done, **{side: [*map(tensor, config.blocks(side))] for side in SIDES}}


def _complete(
    model: Model, side: str, entries: Sequence[dict[str, Any]], contract: ModelContract
) -> dict[str, Port]:
    """Return the tensors of one side as the backend completes them."""
    declared, ports = model.declared_ports(side), {}
    for entry in entries:
        name, data_type = entry["name"], entry["data_type"].removeprefix("TYPE_")
        allowed = contract.tensors[side][name]
        spec = TensorSpec(name, data_type, free_dims(entry["dims"]))
        port = declared.get(name) or Port(spec, optional=allowed.optional)
        ports[name] = replace(port, tensor=spec, determined_by=allowed.determined_by)
    return ports


def _check_candidates(model: Model) -> Iterator[Finding]:
    limit = int(model.parameters.get("max_sequences", "1000"))
    for batching in model.config.blocks("sequence_batching"):
        for oldest in batching.blocks("oldest"):
            most = read_integer(oldest.value("max_candidate_sequences"))
            if most <= limit:
                yield model.warning(
                    batching.line,
                    f"max_candidate_sequences is {most}, and max_sequences {limit}; give more than "
                    f"{limit}: sequences beyond the candidates wait without an error",
                )
