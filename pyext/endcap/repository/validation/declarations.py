"""Checks of one model that need no other: name, backend, versions, files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endcap.repository.validation.model import Finding, Model, Severity
from endcap.triton.model_folder import FILE_OF_BACKEND
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

_FILES = {**FILE_OF_BACKEND, "endcap_onnx": "model.onnx"}


def check_declarations(model: Model) -> Iterator[Finding]:
    """Check what the configuration says of the name, the backend, versions and files."""
    yield from _check_folder(model)
    yield from _check_versions(model)
    for line, what, file in _named_files(model):
        if not file.exists():
            text = f"{what} {file}, which is not there; put it there, or leave the field out"
            yield model.error(line, text)


def _check_folder(model: Model) -> Iterator[Finding]:
    if model.message.name not in ("", model.name):
        yield model.error(
            model.config.line_of("name"),
            f"the model is named {model.message.name}, and its folder {model.name}; give both the "
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


def network_file(model: Model, version: int) -> Path | None:
    """Return the file that the backend opens in a version folder, None where it opens none."""
    name = model.message.default_model_filename or _FILES.get(model.needed_backend)
    return model.path / str(version) / name if name and not model.is_ensemble else None


def _check_versions(model: Model) -> Iterator[Finding]:
    there, loaded = model.versions, model.loaded_versions()
    for version in loaded:
        if version not in there:
            make = model.warning if {*loaded} & {*there} else model.error
            yield make(
                model.config.nth("version_policy", 0).nth("specific", 0).line_of("versions"),
                f"version_policy asks for version {version}, which has no folder; `mkdir "
                f"{model.path / str(version)}`, or take it out of the list",
            )
    line = model.config.line_of("default_model_filename", "backend", "platform")
    for version in there:
        file = network_file(model, version)
        if file is not None and not file.exists():
            make = model.error if version in loaded else model.warning
            yield make(
                line,
                f"the model needs {file}, which is not there; put it there, or name the file that "
                "is in default_model_filename",
            )


def _named_files(model: Model) -> Iterator[tuple[int, str, Path]]:
    """Yield the line, the description and the path of each file that config.pbtxt names."""
    for index, output in enumerate(model.message.output):
        if output.label_filename:
            line = model.config.nth("output", index).line_of("label_filename")
            what = f"output {output.name} has the label_filename"
            yield line, what, model.path / output.label_filename
    for index, sample in enumerate(model.message.model_warmup):
        block = model.config.nth("model_warmup", index)
        for name, tensor in sample.inputs.items():
            if tensor.input_data_file:
                line = block.entry("inputs", name).nth("value", 0).line_of("input_data_file")
                file = model.path / "warmup" / tensor.input_data_file
                yield line, f"the warm-up {sample.name} reads", file
    environment = model.parameters.get(EXECUTION_ENVIRONMENT, "")
    if model.runs_python and MODEL_DIRECTORY in environment:
        line = model.parameter_line(EXECUTION_ENVIRONMENT)
        file = Path(environment.replace(MODEL_DIRECTORY, str(model.path)))
        yield line, f"{EXECUTION_ENVIRONMENT} is", file
