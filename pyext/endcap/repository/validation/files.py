"""The files that a model needs beside its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import Model

_FILE_OF_BACKEND = {
    "endcap_onnx": "model.onnx",
    "onnxruntime": "model.onnx",
    "openvino": "model.xml",
    "python": "model.py",
    "pytorch": "model.pt",
    "tensorrt": "model.plan",
}
_ENVIRONMENT = "EXECUTION_ENV_PATH"
_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


def check_files(model: Model) -> Iterator[Finding]:
    """Whether all files are there that the configuration names or the backend asks for."""
    yield from _check_versions(model)
    yield from _check_labels(model)
    yield from _check_warmup_files(model)
    yield from _check_environment(model)


def network_file(model: Model, version: int) -> Path | None:
    """Return the file that the backend opens in a version folder, None where it opens none."""
    if model.is_ensemble:
        return None
    name = model.config.default_model_filename or _FILE_OF_BACKEND.get(model.backend)
    return model.folder / str(version) / name if name else None


def _check_versions(model: Model) -> Iterator[Finding]:
    there, loaded = model.versions(), model.loaded_versions()
    policy = model.lines.nth("version_policy", 0)
    for version in loaded:
        if version not in there:
            make = model.warning if {*loaded} & {*there} else model.error
            yield make(
                policy.nth("specific", 0).line_of("versions"),
                f"version_policy asks for version {version}, and there is no such folder",
                f"`mkdir {model.folder / str(version)}`, or take it out of the list",
            )
    line = model.lines.line_of("default_model_filename", "backend", "platform")
    for version in there:
        file = network_file(model, version)
        if file is None or file.exists():
            continue
        make = model.error if version in loaded else model.warning
        yield make(
            line,
            f"the model needs {file}, which is not there",
            "put it there, or name the file that is in default_model_filename",
        )


def _check_labels(model: Model) -> Iterator[Finding]:
    for index, output in enumerate(model.config.output):
        name = output.label_filename
        if name and not (model.folder / name).is_file():
            yield model.error(
                model.lines.nth("output", index).line_of("label_filename"),
                f"output {output.name} has the label_filename {name}, and "
                f"{model.folder / name} is not there",
                "put it there, one name in a line, or leave label_filename out",
            )


def _check_warmup_files(model: Model) -> Iterator[Finding]:
    for index, sample in enumerate(model.config.model_warmup):
        block = model.lines.nth("model_warmup", index)
        for name, tensor in sample.inputs.items():
            file = model.folder / "warmup" / tensor.input_data_file
            if tensor.input_data_file and not file.is_file():
                entry = block.entry("inputs", name)
                yield model.error(
                    entry.nth("value", 0).line_of("input_data_file"),
                    f"the warm-up {sample.name} reads {file}, which is not there",
                    "put it there, or leave this model_warmup out",
                )


def _check_environment(model: Model) -> Iterator[Finding]:
    given = model.parameters.get(_ENVIRONMENT, "")
    if model.backend != "python" or _MODEL_DIRECTORY not in given:
        return
    archive = Path(given.replace(_MODEL_DIRECTORY, str(model.folder)))
    if not archive.exists():
        yield model.error(
            model.parameter_line(_ENVIRONMENT),
            f"{_ENVIRONMENT} is {archive}, which is not there",
            "put the packed environment there, or leave the parameter out",
        )
