"""Checks of one model that need no other: name, versions, declarations, files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from endcap.repository.validation.model import Finding, Model, Severity
from endcap.repository.validation.tensors import SIDES
from endcap.triton.model_config import Block
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

_NOT_COMPLETING = ("python", "")  # "" is an ensemble's
_FILE_OF_BACKEND = {
    "endcap_onnx": "model.onnx",
    "onnxruntime": "model.onnx",
    "openvino": "model.xml",
    "python": "model.py",
    "pytorch": "model.pt",
    "tensorrt": "model.plan",
}


def check_identity(model: Model) -> Iterator[Finding]:
    """Check name, version folders and backend."""
    if model.config.name not in ("", model.name):
        yield model.error(
            model.lines.line_of("name"),
            f"the model is named {model.config.name}, and its folder {model.name}",
            "give both the same name, or leave the line out",
        )
    if not model.versions():
        yield Finding(
            file=model.folder,
            line=None,
            severity=Severity.ERROR,
            model=model.name,
            problem="the model has no version folder",
            remedy=f"`mkdir {model.folder / '1'}`",
        )
    if not model.backend and not model.is_ensemble:
        yield model.error(
            1,
            "the model names no backend, and has no file from which Triton would choose one",
            'name it, as in backend: "endcap_preprocess"',
        )


def check_declarations(model: Model) -> Iterator[Finding]:
    """Check tensors and batch sizes as they are written."""
    if not model.stage:  # else they are compared with what they have to be
        for side in SIDES:
            for index, entry in enumerate(getattr(model.config, side)):
                yield from _check_tensor(model, side, entry, model.lines.nth(side, index))
    yield from _check_batching(model)


def _check_tensor(model: Model, side: str, entry: Any, block: Block) -> Iterator[Finding]:
    if not entry.name:
        yield model.error(block.line, f"an {side} has no name", "name it")
    if any(dim == 0 or dim < -1 for dim in entry.dims):
        yield model.error(
            block.line_of("dims"),
            f"{side} {entry.name} has dims {list(entry.dims)}",
            "give whole numbers from 1, or -1 for a size that varies",
        )
    given = {"data_type": entry.data_type != 0, "dims": len(entry.dims) > 0}
    lacking = [field for field, is_given in given.items() if not is_given]
    if lacking and model.backend in _NOT_COMPLETING:
        yield model.error(
            block.line,
            f"{side} {entry.name} has no {' and no '.join(lacking)}",
            "give it; nothing completes it",
        )


def _check_batching(model: Model) -> Iterator[Finding]:
    largest = model.config.max_batch_size
    if largest < 0:
        yield model.error(
            model.lines.line_of("max_batch_size"),
            f"max_batch_size is {largest}",
            "give the largest batch, or 0 for tensors without a batch dimension",
        )
        return
    block = model.lines.nth("dynamic_batching", 0)
    sizes = [*model.config.dynamic_batching.preferred_batch_size]
    if any(not 0 < size <= largest for size in sizes):
        yield model.error(
            block.line_of("preferred_batch_size"),
            f"preferred_batch_size is {sizes}, and max_batch_size {largest}",
            "give sizes from 1 to max_batch_size",
        )


def check_files(model: Model) -> Iterator[Finding]:
    """Check that all files exist that the configuration names or the backend opens."""
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
    given = model.parameters.get(EXECUTION_ENVIRONMENT, "")
    if model.backend != "python" or MODEL_DIRECTORY not in given:
        return
    archive = Path(given.replace(MODEL_DIRECTORY, str(model.folder)))
    if not archive.exists():
        yield model.error(
            model.parameter_line(EXECUTION_ENVIRONMENT),
            f"{EXECUTION_ENVIRONMENT} is {archive}, which is not there",
            "put the packed environment there, or leave the parameter out",
        )
