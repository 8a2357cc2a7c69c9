"""A model with an ONNX file: what its configuration says against what the file says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from endcap._pip_commands import install_command
from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import (
    NAMES,
    RAW_PIXELS,
    Normalization,
    read_normalization,
)
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.validation.model import SIDES, Finding, Interface, Model, Port, Severity
from endcap.triton.model_contract import preprocess_contract
from endcap.triton.tensor_spec import TensorSpec, dims_fit

# These load no network with such an output, not even for batches of 1.
_REFUSE_FIXED_OUTPUTS = ("endcap_onnx", "onnxruntime")
_BACKENDS = ("endcap_onnx", "onnxruntime", "openvino", "python")
# Between black and white in a network's first layer; what is divided by 255 twice has 0.004.
_MIN_RANGE = 0.05


def find_onnx(model: Model) -> Path | None:
    """Return the ONNX file of the newest version that is loaded, None where there is none."""
    if model.needed_backend not in _BACKENDS:
        return None
    for version in reversed(model.loaded_versions()):
        named = model.parameters.get("model_file", "model.onnx")  # of shipped Python models
        for file in (model.network_file(version), model.path / str(version) / named):
            if file is not None and file.suffix == ".onnx" and file.is_file():
                return file
    return None


def examine_network(model: Model, file: Path) -> tuple[list[Finding], Interface]:
    """Return what does not go with the file, and the tensors as declared or else as in it."""
    try:
        network = read_onnx(file)
    except RepositoryError as error:
        severity, cause = Severity.ERROR, error.__cause__
        problem, _, remedy = str(error).removeprefix(f"{file} ").rpartition("; ")
        if isinstance(cause, ImportError):
            severity, remedy = Severity.NOTE, f"`{install_command('init')}`"
            problem = f"the network was not checked: the package onnx is not installed ({cause})"
        finding = Finding(file, None, severity, model.name, problem, remedy)
        return [finding], model.declared_interface()
    # The file's first dimensions are the batch as declared, else where all are free.
    batched = all(tensor.dims[:1] == (None,) for tensor in network.inputs)
    if model.max_batch_size or model.config.blocks("input"):
        batched = model.max_batch_size > 0
    findings = [*_check_batch(model, network)]
    sides: list[dict[str, Port] | None] = []
    for side, in_file in zip(SIDES, (network.inputs, network.outputs), strict=True):
        items = {t.name: replace(t, dims=t.dims[1:]) if batched else t for t in in_file}
        ports = model.declared_ports(side)
        if ports or model.runs_python:
            wrong = [*_compare(model, side, ports, items)]
            findings += wrong
            sides.append(ports if ports and not wrong else None)
        else:
            sides.append({name: Port(tensor) for name, tensor in items.items()})
    largest = model.largest_batch if model.largest_batch or not batched else None
    inputs, outputs = sides
    return findings, Interface(inputs, outputs, largest, normalization=read_normalization(network))


def _check_batch(model: Model, network: OnnxFile) -> Iterator[Finding]:
    largest = model.largest_batch
    if not largest:
        return
    side, fixed = "input", [t for t in network.inputs if t.dims and t.dims[0] is not None]
    if not fixed and model.needed_backend in _REFUSE_FIXED_OUTPUTS:
        # Whatever comes in; ONNX Runtime's own backend reads only the declared ones.
        read = model.declared_ports("output") if model.needed_backend == "onnxruntime" else {}
        inferred = [t for t in network.inferred_outputs() if not read or t.name in read]
        side, fixed = "output", [t for t in inferred if t.dims and t.dims[0] is not None]
    if not fixed:
        return
    batch = fixed[0].dims[0]
    refused = side == "output" or model.needed_backend == "onnxruntime"  # even for batches of 1
    if not refused and largest == batch == 1:
        return
    takes = f"has the fixed batch {batch}" if refused else f"takes batches of {batch} alone"
    advice = "export the network with a free batch dimension"
    if refused:
        advice += ", or write max_batch_size: 0 and the file's whole shapes into dims"
    elif batch == 1:
        advice += ", or write max_batch_size: 1 here and in the ensemble"
    yield model.error(
        model.config.find_line("max_batch_size"),
        f"max_batch_size is {largest}, and {network.path} {takes} (its {side} is {fixed[0]}); "
        f"{advice}",
    )


def _compare(
    model: Model, side: str, declared: Mapping[str, Port], in_file: Mapping[str, TensorSpec]
) -> Iterator[Finding]:
    """Compare one side; a Python model may rename tensors, so that names are warnings there."""
    by_name = model.warning if model.runs_python else model.error
    are_known = True
    for name, port in declared.items():
        block = port.block or model.config
        tensor = in_file.get(name)
        if tensor is None:
            are_known = False
            there = ", ".join(map(str, in_file.values()))
            text = f"the network has no {side} {name}; its {side}s are {there}; use their names"
            yield by_name(block.find_line("name"), text)
        elif not _agree(model, side, port.tensor, tensor):
            found = Port(tensor).type_text
            field = "dims" if port.tensor.data_type == tensor.data_type else "data_type"
            yield model.error(
                block.find_line(field),
                f"{side} {name} is declared as {port.type_text}, and the network's is "
                f"{found}; declare it as the network has it",
            )
    missing = [tensor for name, tensor in in_file.items() if name not in declared]
    if side == "input" and missing and are_known:  # else it is the one that was meant
        text = f"the network also has the {side} {missing[0]}, which is not declared; declare it"
        yield by_name(model.config.find_line("input"), text)


def _agree(model: Model, side: str, declared: TensorSpec, tensor: TensorSpec) -> bool:
    if model.runs_python and side == "output":
        return _same_numbers(declared, tensor)
    if tensor.data_type and declared.data_type not in ("", tensor.data_type):
        return False
    if not declared.dims:  # the backend completes them
        return True
    if model.runs_python and model.largest_batch == 0:
        # The code may add the batch dimension to the one image of a request.
        return any(dims_fit(declared.dims, dims) for dims in (tensor.dims, tensor.dims[1:]))
    left_free = any(
        a is None and b is not None for a, b in zip(declared.dims, tensor.dims, strict=False)
    )
    # ONNX Runtime's backend takes no -1 for what the file fixes.
    return dims_fit(declared.dims, tensor.dims) and not (
        left_free and model.needed_backend == "onnxruntime"
    )


def _same_numbers(declared: TensorSpec, tensor: TensorSpec) -> bool:
    """Whether the code of a Python model may make one of the other: another type, other dims."""
    known = [each.dims for each in (declared, tensor) if each.dims and None not in each.dims]
    return len({math.prod(filter(None, dims)) for dims in known}) < 2


def check_normalization(preprocess: Model, name: str, network: Interface) -> Iterator[Finding]:
    """Check that a network does not normalise pixels that preprocess has normalised already."""
    inside = network.normalization
    given = {name: preprocess.parameters[name] for name in NAMES if name in preprocess.parameters}
    preset = preprocess.parameters.get("preset")
    whole = preprocess_contract({"preset": preset} if preset else {}).parameters
    if inside is None or preprocess.parameters.get("dtype") in ("uint8", "int8"):
        return
    own = Normalization.from_parameters({**whole, **given})
    if given and np.abs(255 * own.slopes * inside.slopes).max() >= _MIN_RANGE:
        return  # it was chosen for this network
    complement = inside.complement(Normalization.from_parameters(whole))
    complement = complement or replace(RAW_PIXELS, scale=inside.whole.scale)
    values = ", ".join(f"{name} {value}" for name, value in complement.parameters().items())
    yield preprocess.warning(
        preprocess.parameter_line(next(iter(given), "preset")),
        f"preprocess computes {own} of each pixel x, and the network of {name} then begins by "
        f"computing {inside} itself; write the parameters {values} if the network takes the pixels "
        "like that",
    )
