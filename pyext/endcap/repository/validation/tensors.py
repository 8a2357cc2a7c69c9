"""Inputs and outputs of a model: as declared, and as contracts complete them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from endcap.repository.input_normalization import Normalization
from endcap.repository.validation.model import Finding, Model, enum_name
from endcap.triton.model_config import Block
from endcap.triton.tensor_contract import TensorContract
from endcap.triton.tensor_spec import Dims, TensorSpec, dims_fit, free_dims

SIDES = ("input", "output")


@dataclass(frozen=True)
class Port:
    """One input or output, without the batch dimension where the model has one.

    Attributes:
        block: Where it is declared in config.pbtxt; None where the backend completes it.
        in_doubt: It has a finding of its own, so that nothing is concluded from it.
        determined_by: The parameters on which it depends, "" where none are known.
    """

    tensor: TensorSpec
    block: Block | None = None
    optional: bool = False
    in_doubt: bool = False
    determined_by: str = ""


@dataclass(frozen=True)
class Interface:
    """All inputs and outputs by name, None where unknown, and the largest batch.

    Attributes:
        max_batch_size: 0 where the model has no batch dimension, None where it is not known.
        contradictory: What is declared is not what the model's parameters determine.
        normalization: By which the model's network begins; None where there is none.
    """

    inputs: Mapping[str, Port] | None
    outputs: Mapping[str, Port] | None
    max_batch_size: int | None
    contradictory: bool = False
    normalization: Normalization | None = None


def declared_ports(model: Model, side: str) -> dict[str, Port]:
    """Return the inputs or outputs that config.pbtxt lists."""
    ports = {}
    for index, entry in enumerate(getattr(model.config, side)):
        block = model.lines.nth(side, index)
        optional = side == "input" and entry.optional
        spec = TensorSpec(entry.name, data_type_of(entry), free_dims(entry.dims))
        impossible = any(dim == 0 or dim < -1 for dim in entry.dims)
        ports[entry.name] = Port(spec, block, optional, in_doubt=impossible)
    return ports


def declared_interface(model: Model, *, in_doubt: bool = False) -> Interface:
    """Return the interface as config.pbtxt has it; a side that lists nothing is not known."""
    inputs, outputs = (
        {
            name: replace(port, in_doubt=in_doubt or port.in_doubt)
            for name, port in declared_ports(model, side).items()
        }
        for side in SIDES
    )
    return Interface(inputs or None, outputs or None, model.max_batch_size)


def data_type_of(entry: Any) -> str:
    """Return the type of a declared tensor without TYPE_, "" where none is given."""
    return "" if entry.data_type == 0 else enum_name(entry, "data_type").removeprefix("TYPE_")


def form(tensor: TensorSpec) -> str:
    """Return type and shape, such as `FP32 [3, 640, 640]`."""
    return str(tensor).removeprefix(f"{tensor.name} ")


def compare_with_contracts(
    model: Model, side: str, contracts: Sequence[TensorContract]
) -> tuple[list[Finding], dict[str, Port]]:
    """Return findings on declared inputs or outputs, and these completed by their contracts."""
    declared = getattr(model.config, side)
    if not declared:
        return [], {contract.name: _undeclared(contract) for contract in contracts}
    by_name = {contract.name: contract for contract in contracts}
    findings: list[Finding] = []
    ports = declared_ports(model, side)
    for index, entry in enumerate(declared):
        block = model.lines.nth(side, index)
        contract, port = by_name.get(entry.name), ports[entry.name]
        if contract is None:
            findings.append(_misnamed(model, side, entry, block, by_name))
            ports[entry.name] = replace(port, in_doubt=True, optional=True)
        else:
            findings += _check_entry(model, side, entry, block, contract)
            ports[entry.name] = _completed(port, entry, contract)
    misnamed = ports.keys() - by_name.keys()
    missing = [each for each in contracts if _is_required(side, each) and each.name not in ports]
    # A misnamed tensor is reported; the one that was meant is not missing besides.
    findings += [_missing(model, contract) for contract in missing[len(misnamed) :]]
    if misnamed or missing:
        for name, contract in by_name.items():
            meant = replace(_undeclared(contract), optional=True, in_doubt=True)
            ports.setdefault(name, meant)
    return findings, ports


def _undeclared(contract: TensorContract) -> Port:
    return Port(contract.forms[0], optional=contract.optional, determined_by=contract.determined_by)


def _is_required(side: str, contract: TensorContract) -> bool:
    return side == "input" and not contract.optional


def _completed(port: Port, entry: Any, contract: TensorContract) -> Port:
    form_taken = _fitting(entry, contract)
    if form_taken is None:
        return replace(port, in_doubt=True, optional=True)
    dims = port.tensor.dims or form_taken.dims
    if len(dims) == len(form_taken.dims):  # else there is a reshape between them
        dims = tuple(b if a is None else a for a, b in zip(dims, form_taken.dims, strict=True))
    tensor = TensorSpec(port.tensor.name, form_taken.data_type, dims)
    return replace(port, tensor=tensor, determined_by=contract.determined_by)


def _fitting(entry: Any, contract: TensorContract) -> TensorSpec | None:
    """Return the first form of the contract that the declaration leaves room for."""
    data_type, shape = data_type_of(entry), _shape(entry)
    for allowed in contract.forms:
        if data_type in ("", allowed.data_type) and (
            shape is None or dims_fit(shape, allowed.dims)
        ):
            return allowed
    return None


def _shape(entry: Any) -> Dims | None:
    """Return the shape that the backend sees, None where it completes it."""
    if entry.HasField("reshape"):
        return free_dims(entry.reshape.shape)
    return free_dims(entry.dims) or None


def _check_entry(
    model: Model, side: str, entry: Any, block: Block, contract: TensorContract
) -> Iterator[Finding]:
    if contract.labels_belong_to and entry.label_filename:
        yield model.error(
            block.line_of("label_filename"),
            f"output {entry.name} has a label_filename, and its elements are not in the order of "
            "the classes",
            f"give the label_filename to output {contract.labels_belong_to}",
        )
    if _fitting(entry, contract) is None:
        types = {"", *(allowed.data_type for allowed in contract.forms)}
        fields = ("reshape", "dims") if data_type_of(entry) in types else ("data_type",)
        declared = form(TensorSpec("", data_type_of(entry), _shape(entry) or ()))
        change = f", or change {contract.determined_by}" if contract.determined_by else ""
        yield model.error(
            block.line_of(*fields),
            f"{side} {entry.name} is declared as {declared}, and this model's is "
            + " or ".join(map(form, contract.forms)),
            f"declare it so{change}",
        )


def _misnamed(
    model: Model, side: str, entry: Any, block: Block, by_name: dict[str, TensorContract]
) -> Finding:
    return model.error(
        block.line_of("name"),
        f"{side} {entry.name} is none of {model.stage}",
        f"take it out, or give it a name that is: {', '.join(by_name)}",
    )


def _missing(model: Model, contract: TensorContract) -> Finding:
    return model.error(
        model.lines.line_of("input"),
        f"input {contract.name} is missing among those declared",
        f"add it as {' or '.join(map(form, contract.forms))}, or declare no input: the backend "
        "then completes all",
    )
