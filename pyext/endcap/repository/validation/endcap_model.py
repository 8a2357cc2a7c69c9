"""Models of endcap's backends: parameters, tensors, class names, the models of a cascade."""

from __future__ import annotations

import re
from collections.abc import Iterator

from endcap import _core
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError
from endcap.repository.validation.model import POSTPROCESS, PREPROCESS, Finding, Model, Severity
from endcap.repository.validation.tensors import (
    SIDES,
    Interface,
    Port,
    compare_with_contracts,
    declared_interface,
)
from endcap.triton.cascade_settings import CascadeSettings, models_called, read_cascade_settings
from endcap.triton.ensemble import PREPROCESS_BACKEND
from endcap.triton.parameters import OPTIONAL, SERVER_PARAMETERS, parse_count
from endcap.triton.tensor_contract import Core, class_paths_contract, contracts_of
from endcap.triton.video_settings import read_video_settings

_CORES: dict[str, type[Core]] = {PREPROCESS: _core.Preprocessor, POSTPROCESS: _core.Postprocessor}
# The stages' own, which the core does not know.
_OWN = {PREPROCESS: ("threads",), POSTPROCESS: ("threads", "labels_file", "labels_separator")}
_QUEUE_COST = "max_queue_cost"  # of the backend endcap_preprocess, not of models in Python
_MOST_QUEUE_COST_MS = 3.6e6
BLS = "endcap_bls"
TRACK = "endcap_track"
_MAX_SEQUENCES = "max_sequences"  # of a tracker
_MAX_IN_FLIGHT = "max_in_flight"  # which a cascade in Python does not have


def examine_endcap_model(model: Model) -> tuple[list[Finding], Interface]:
    """Return what is wrong with a model that has a stage, and its tensors as completed."""
    findings, core = _read_parameters(model)
    if core is None:
        return findings, declared_interface(model, in_doubt=True)
    takes_rois = model.stage == PREPROCESS and not model.runs_dali
    with_rois = takes_rois and any(entry.name == "rois" for entry in model.config.input)
    if with_rois:
        findings += _check_rois(model)
    contracts = contracts_of(core, with_rois=with_rois)
    if model.parameters.get("labels_separator") and model.stage == POSTPROCESS:
        contracts["output"].append(class_paths_contract(core))
    ports: list[dict[str, Port]] = []
    contradictory = False
    for side in SIDES:
        of_side, completed = compare_with_contracts(model, side, contracts[side])
        findings += of_side
        contradictory |= bool(of_side)
        ports.append(completed)
    if model.stage == POSTPROCESS:
        values = {name: value for name, _, _, value in core.parameters}
        findings += _check_labels_file(model, values["head"], int(values["num_classes"]))
        findings += _check_labels_separator(model)
    return findings, Interface(ports[0], ports[1], model.max_batch_size, contradictory)


def _read_parameters(model: Model) -> tuple[list[Finding], Core | None]:
    """Return what is wrong with the parameters, and the core's object for them if nothing is."""
    findings = [*_check_own(model)]
    of_python = (*SERVER_PARAMETERS, OPTIONAL) if model.backend == "python" else ()
    of_backend = (_QUEUE_COST,) if model.backend == PREPROCESS_BACKEND else ()
    own = [*_OWN[model.stage], *of_python, *of_backend]
    given = {name: value for name, value in model.parameters.items() if name not in own}
    core: Core | None = None
    while core is None:
        try:
            core = _CORES[model.stage]([*given.items()], 1)
        except EndcapError as error:
            name = _parameter_in(str(error), given)
            findings.append(_refusal(model, name, error))
            if name is None:
                break
            del given[name]  # to see whether the rest is right
    return findings, None if any(f.severity is Severity.ERROR for f in findings) else core


def _refusal(model: Model, name: str | None, error: EndcapError) -> Finding:
    problem, _, remedy = str(error).rpartition(": ")
    # What this CPU cannot do, a server with a GPU may.
    severity = Severity.NOTE if isinstance(error, UnsupportedError) else Severity.ERROR
    line = model.lines.line_of("parameters") if name is None else model.parameter_line(name)
    return model.finding(severity, line, problem or remedy, remedy)


def _parameter_in(message: str, given: dict[str, str]) -> str | None:
    """Return the parameter that the core's message names first."""
    for name in given:
        if message.startswith((f"{name} ", f"'{name}' ")):
            return name
    return next((name for name in given if f" {name} " in message), None)


def _check_own(model: Model) -> Iterator[Finding]:
    threads = model.parameters.get("threads", "0")
    if not (threads.isascii() and threads.isdecimal() and int(threads) < 2**31):
        yield model.error(
            model.parameter_line("threads"),
            f"threads is '{threads}'",
            "give a whole number of 0 or more",
        )
    if model.backend == PREPROCESS_BACKEND and not _is_queue_cost(
        model.parameters.get(_QUEUE_COST, "0")
    ):
        yield model.error(
            model.parameter_line(_QUEUE_COST),
            f"{_QUEUE_COST} is '{model.parameters[_QUEUE_COST]}'",
            "give the milliseconds of predicted work that may wait, up to 3600000; 0: no limit",
        )
    optional = model.parameters.get(OPTIONAL, "false") if model.backend == "python" else "false"
    if optional not in ("true", "false"):
        yield model.error(
            model.parameter_line(OPTIONAL), f"{OPTIONAL} is neither true nor false", "give one"
        )
    if model.stage == POSTPROCESS and "head" not in model.parameters:
        yield model.error(
            model.lines.line_of("backend"),
            "parameter head is missing",
            "name the family of the network's head, as in "
            'parameters { key: "head" value { string_value: "yolov8" } }',
        )


def _is_queue_cost(text: str) -> bool:
    """Whether the backend accepts a text as `max_queue_cost`."""
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is None:
        return False
    return float(text) <= _MOST_QUEUE_COST_MS


def _check_rois(model: Model) -> Iterator[Finding]:
    """Check that a model with an input `rois` has no batches: the load fails otherwise."""
    if model.config.max_batch_size > 0:
        yield model.error(
            model.lines.line_of("max_batch_size"),
            f"max_batch_size is {model.config.max_batch_size} in a model with input rois, and "
            "images have different numbers of regions",
            "give max_batch_size: 0",
        )


def _check_labels_file(model: Model, head: str, num_classes: int) -> Iterator[Finding]:
    """Check that the parameter `labels_file` names a file with a line for each class."""
    given = model.parameters.get("labels_file")
    if given is None:
        return
    line, file = model.parameter_line("labels_file"), model.folder / given
    if head != "classification":
        yield model.error(
            line, f"labels_file is given with head={head}", "it is for head=classification only"
        )
    elif not file.is_file():
        yield model.error(
            line,
            f"labels_file is {file}, which is no file",
            "give the path of a text file, relative to the model's folder",
        )
    else:
        names = file.read_bytes().split(b"\n")
        count = len(names) - (names[-1] == b"")
        if count != num_classes:
            yield model.error(
                line,
                f"labels_file {file} has {count} lines, and num_classes is {num_classes}",
                "give it one line for each class, or correct num_classes",
            )


def _check_labels_separator(model: Model) -> Iterator[Finding]:
    """Check that `labels_separator` cuts the lines of `labels_file` into non-empty parts."""
    separator = model.parameters.get("labels_separator")
    if separator is None:
        return
    line, given = model.parameter_line("labels_separator"), model.parameters.get("labels_file")
    if given is None:
        yield model.error(
            line,
            "labels_separator is given without labels_file",
            "give the file whose lines it separates, or leave it out",
        )
    elif not separator:
        yield model.error(
            line,
            "labels_separator is empty",
            "give the text between the parts of a line, for example /, or leave it out",
        )
    elif (file := model.folder / given).is_file():
        paths = file.read_bytes().removesuffix(b"\n").split(b"\n")
        for number, path in enumerate(paths, 1):
            if b"" not in path.removesuffix(b"\r").split(separator.encode()):
                continue
            yield model.error(
                model.parameter_line("labels_file"),
                f"labels_file {file} has an empty part in its line {number}",
                f"write the names from the root to the class, with one {separator} between two",
            )
            return


def check_track(model: Model) -> Iterator[Finding]:
    """Check the parameters of a tracker (backend endcap_track), and that it takes sequences."""
    given = dict(model.parameters)
    try:
        if parse_count(_MAX_SEQUENCES, given.pop(_MAX_SEQUENCES, "1")) == 0:
            raise InvalidArgumentError(f"{_MAX_SEQUENCES} is 0: give 1 or more")
        _core.Tracker([*given.items()])
    except InvalidArgumentError as error:
        problem, _, remedy = str(error).rpartition(": ")
        yield model.error(_line_of(model, str(error)), problem or remedy, remedy)
    batching = model.config.sequence_batching
    most = batching.oldest.max_candidate_sequences
    limit = model.parameters.get(_MAX_SEQUENCES, "1000")
    if batching.HasField("oldest") and limit.isdecimal() and most <= int(limit):
        yield model.warning(
            model.lines.line_of("sequence_batching"),
            f"max_candidate_sequences is {most}, and {_MAX_SEQUENCES} {limit}",
            f"give more than {limit}: sequences beyond the candidates wait without an error",
        )
    if not model.config.HasField("sequence_batching"):
        yield model.error(
            model.lines.line_of("backend"),
            "a tracker without sequence_batching",
            "add sequence_batching { max_sequence_idle_microseconds: 10000000 oldest { "
            "max_candidate_sequences: 1024 } }",
        )


def check_cascade(model: Model, folders: frozenset[str]) -> Iterator[Finding]:
    """Check the parameters of a cascade (backend endcap_bls), and that its models exist."""
    try:
        settings = _read_cascade(model)
    except InvalidArgumentError as error:
        problem, *remedy = re.split("[:;] ", str(error), maxsplit=1)
        yield model.error(_line_of(model, problem), problem, *(remedy or ["leave it out"]))
        return
    for parameter, name in models_called(settings):
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
        yield model.error(_line_of(model, problem), problem, *(remedy or ["leave it out"]))
        return
    if settings.model not in folders:
        line = "model" if "model" in model.parameters else None
        yield model.warning(
            model.lines.line_of("parameters") if line is None else model.parameter_line(line),
            f"model names {settings.model}, which is not in this repository",
            "add it, or correct the name; frames cannot be detected without it",
        )
    if not model.config.model_transaction_policy.decoupled:
        yield model.error(
            model.lines.line_of("backend"),
            "a model of videos that is not decoupled",
            "add model_transaction_policy { decoupled: true }",
        )


def _read_cascade(model: Model) -> CascadeSettings:
    given = dict(model.parameters)
    if parse_count(_MAX_IN_FLIGHT, given.pop(_MAX_IN_FLIGHT, "1")) == 0:
        raise InvalidArgumentError(f"{_MAX_IN_FLIGHT} is 0; give 1 or more")
    values = {name: {"string_value": value} for name, value in given.items()}
    return read_cascade_settings({"name": model.name, "parameters": values})


def _line_of(model: Model, problem: str) -> int:
    for name in model.parameters:
        if problem.startswith((f"{name} ", f"'{name}' ")):
            return model.parameter_line(name)
    return model.lines.line_of("parameters")
