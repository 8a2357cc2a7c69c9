"""A model with an ONNX file: what its configuration says against what the file says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from endcap.repository.errors import RepositoryError
from endcap.repository.input_normalization import NAMES, RAW_PIXELS, describe, read_normalization
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.validation.declarations import network_file
from endcap.repository.validation.model import PREPROCESS, Finding, Model, Severity
from endcap.repository.validation.steps import Known, Step
from endcap.repository.validation.tensors import (
    SIDES,
    Interface,
    Port,
    declared_interface,
    declared_ports,
    form,
)
from endcap.triton.model_contract import preprocess_contract
from endcap.triton.tensor_spec import TensorSpec, dims_fit

# These load no network with such an output, not even for batches of 1.
_REFUSE_FIXED_OUTPUTS = ("endcap_onnx", "onnxruntime")
_BACKENDS = ("endcap_onnx", "onnxruntime", "openvino", "python")
# Between black and white in a network's first layer; what is divided by 255 twice has 0.004.
_SMALLEST_RANGE = 0.05


def find_onnx(model: Model) -> Path | None:
    """Return the ONNX file of the newest version that is loaded, None where there is none."""
    if model.backend not in _BACKENDS:
        return None
    for version in reversed(model.loaded_versions()):
        named = model.parameters.get("model_file", "model.onnx")  # of shipped Python models
        for file in (network_file(model, version), model.folder / str(version) / named):
            if file is not None and file.suffix == ".onnx" and file.is_file():
                return file
    return None


def examine_network(model: Model, file: Path) -> tuple[list[Finding], Interface]:
    """Return what does not go with the file, and the tensors as declared or else as in it.

    Raises:
        ImportError: The package onnx is not installed.
    """
    try:
        network = read_onnx(file)
    except RepositoryError as error:
        if isinstance(error.__cause__, ImportError):
            raise error.__cause__ from None
        return [_unreadable(model, file, error)], declared_interface(model)
    findings = [*_check_batch(model, network)]
    ports = []
    for side, in_file in zip(SIDES, (network.inputs, network.outputs), strict=True):
        batched = _is_batched(model, network)
        items = {t.name: _item(t) if batched else t for t in in_file}
        declared = declared_ports(model, side)
        if not declared and model.backend != "python":
            ports.append({name: Port(tensor) for name, tensor in items.items()})
            continue
        checked, of_side = _compare(model, side, declared, items)
        findings += of_side
        ports.append(checked)
    largest = model.max_batch_size
    known = bool(largest) or not _is_batched(model, network)
    return findings, Interface(
        ports[0] or None,
        ports[1] or None,
        largest if known else None,
        normalization=read_normalization(network),
    )


def _unreadable(model: Model, file: Path, error: RepositoryError) -> Finding:
    problem, _, remedy = str(error).rpartition("; ")
    return Finding(
        file=file,
        line=None,
        severity=Severity.ERROR,
        model=model.name,
        problem=problem.removeprefix(f"{file} "),
        remedy=remedy,
    )


def _is_batched(model: Model, network: OnnxFile) -> bool:
    """Whether the file's first dimensions are the batch: as declared, else where all are free."""
    if model.config.max_batch_size > 0 or model.config.input:
        return bool(model.config.max_batch_size > 0)
    return all(tensor.dims[:1] == (None,) for tensor in network.inputs)


def _item(tensor: TensorSpec) -> TensorSpec:
    return replace(tensor, dims=tensor.dims[1:])


def _check_batch(model: Model, network: OnnxFile) -> Iterator[Finding]:
    largest = model.max_batch_size
    if not largest:
        return
    side, fixed = "input", [t for t in network.inputs if t.dims and t.dims[0] is not None]
    if not fixed and model.backend in _REFUSE_FIXED_OUTPUTS:
        side, fixed = "output", [*_fixed_outputs(model, network)]
    if not fixed:
        return
    batch = fixed[0].dims[0]
    line = model.lines.line_of("max_batch_size")
    export = "export the network with a free batch dimension"
    if side == "output" or model.backend == "onnxruntime":  # refused even for batches of 1
        yield model.error(
            line,
            f"max_batch_size is {largest}, and {network.path} has the fixed batch {batch} (its "
            f"{side} is {fixed[0]})",
            f"{export}, or write max_batch_size: 0 and the file's whole shapes into dims",
        )
    elif largest != 1 or batch != 1:
        yield model.error(
            line,
            f"max_batch_size is {largest}, and {network.path} takes batches of {batch} alone (its "
            f"{side} is {fixed[0]})",
            f"{export}, or write max_batch_size: 1 here and in the ensemble"
            if batch == 1
            else export,
        )


def _fixed_outputs(model: Model, network: OnnxFile) -> Iterator[TensorSpec]:
    """Yield the outputs that have as many rows whatever comes in, of those that the backend reads.

    endcap's backend reads all of them.
    """
    declared = declared_ports(model, "output") if model.backend == "onnxruntime" else {}
    for tensor in network.inferred_outputs():
        if (
            tensor.dims
            and tensor.dims[0] is not None
            and tensor.name in (declared or {tensor.name})
        ):
            yield tensor


def _compare(
    model: Model, side: str, declared: Mapping[str, Port], in_file: Mapping[str, TensorSpec]
) -> tuple[dict[str, Port], list[Finding]]:
    """Compare one side; a Python model may rename tensors, so that names are warnings there."""
    by_name = model.warning if model.backend == "python" else model.error
    findings: list[Finding] = []
    ports = dict(declared)
    for name, port in declared.items():
        block = port.block or model.lines
        tensor = in_file.get(name)
        if tensor is None:
            ports[name] = replace(port, in_doubt=True, optional=True)
            findings.append(
                by_name(
                    block.line_of("name"),
                    f"the network has no {side} {name}; its {side}s are "
                    + ", ".join(map(str, in_file.values())),
                    "give the tensor the name that it has in the file",
                )
            )
        elif not port.in_doubt and not _agree(model, side, port.tensor, tensor):
            field = "dims" if port.tensor.data_type == tensor.data_type else "data_type"
            findings.append(
                model.error(
                    block.line_of(field),
                    f"{side} {name} is declared as {form(port.tensor)}, and the network's is "
                    f"{form(tensor)}",
                    "declare it as the network has it",
                )
            )
            ports[name] = replace(port, in_doubt=True)
    if findings:
        for name, tensor in in_file.items():
            ports.setdefault(name, Port(tensor, optional=True, in_doubt=True))
    missing = [name for name in in_file if name not in declared] if side == "input" else []
    if missing and not findings:
        findings.append(
            by_name(
                model.lines.line_of("input"),
                f"the network also has the {side} {in_file[missing[0]]}, which is not declared",
                "declare it",
            )
        )
    return ports, findings


def _agree(model: Model, side: str, declared: TensorSpec, tensor: TensorSpec) -> bool:
    if model.backend == "python" and side == "output":
        return _same_numbers(declared, tensor)
    if tensor.data_type and declared.data_type not in ("", tensor.data_type):
        return False
    if not declared.dims:
        return True  # the backend completes them
    if model.backend == "python" and model.max_batch_size == 0:
        # The code may add the batch dimension to the one image of a request.
        return any(dims_fit(declared.dims, dims) for dims in (tensor.dims, tensor.dims[1:]))
    left_free = any(
        a is None and b is not None for a, b in zip(declared.dims, tensor.dims, strict=False)
    )
    # ONNX Runtime's backend takes no -1 for what the file fixes.
    return dims_fit(declared.dims, tensor.dims) and not (
        left_free and model.backend == "onnxruntime"
    )


def _same_numbers(declared: TensorSpec, tensor: TensorSpec) -> bool:
    """Whether the code of a Python model may make one of the other: another type, other dims."""
    known = [each.dims for each in (declared, tensor) if each.dims and None not in each.dims]
    return len({math.prod(filter(None, dims)) for dims in known}) < 2


def check_normalization(steps: Sequence[Step], known: Known) -> Iterator[Finding]:
    """Check that no network normalises pixels that preprocess has normalised already."""
    makers = {
        each.tensor: known.models[step.name]
        for step in steps
        if step.name in known.models and known.models[step.name].stage == PREPROCESS
        for each in step.outputs
        if each.key == "images" and each.port is not None and not each.port.in_doubt
    }
    for step in steps:
        for each in step.inputs:
            if each.tensor in makers:
                yield from _check_normalization(makers[each.tensor], step)


def _check_normalization(preprocess: Model, step: Step) -> Iterator[Finding]:
    inside = step.interface.normalization if step.interface else None
    given = {name: preprocess.parameters[name] for name in NAMES if name in preprocess.parameters}
    preset = preprocess.parameters.get("preset")
    wanted = preprocess_contract({"preset": preset} if preset else {}).parameters
    if inside is None or preprocess.parameters.get("dtype") in ("uint8", "int8"):
        return
    black, white = inside.behind({**wanted, **given})
    if given and abs(white - black).max() >= _SMALLEST_RANGE:
        return  # it was chosen for this network
    place = next(iter(given), "preset")
    complement = inside.complement(wanted) or {**RAW_PIXELS, "scale": inside.whole["scale"]}
    yield preprocess.warning(
        preprocess.parameter_line(place),
        f"preprocess computes {describe({**wanted, **given})} of each pixel x, and the network of "
        f"{step.name} then begins by computing {inside} itself",
        "write the parameters "
        + ", ".join(f"{name} {value}" for name, value in complement.items())
        + " if the network takes the pixels like that",
    )
