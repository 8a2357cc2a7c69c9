"""Parameters of endcap's stages, read by the core that will read them on the server."""

from __future__ import annotations

from collections.abc import Iterator

from endcap import _core
from endcap.errors import EndcapError, UnsupportedError
from endcap.repository.validation.finding import Finding, Severity
from endcap.repository.validation.model import POSTPROCESS, PREPROCESS, Model
from endcap.triton.parameters import OPTIONAL, SERVER_PARAMETERS
from endcap.triton.tensor_contract import Core

_CORES: dict[str, type[Core]] = {PREPROCESS: _core.Preprocessor, POSTPROCESS: _core.Postprocessor}
# The stages' own, which the core does not know.
_OWN = {PREPROCESS: ("threads",), POSTPROCESS: ("threads", "labels_file", "labels_separator")}


def read_parameters(model: Model) -> tuple[list[Finding], Core | None]:
    """Return what is wrong with the parameters, and the core's object for them if nothing is."""
    findings = [*_check_own(model)]
    of_python = (*SERVER_PARAMETERS, OPTIONAL) if model.backend == "python" else ()
    own = [*_OWN[model.stage], *of_python]
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
    """Return the parameter of which the core's message speaks first."""
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
